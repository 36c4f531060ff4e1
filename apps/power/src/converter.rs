//! A converter. Relies on [`Params`]; used by the simulation, and by a converter's process in real time.

use crate::Params;

/// The state of a buck converter: inductor current and capacitor voltage. A step advances it by one loop
/// period.
///
/// The step is the exact solution of the averaged equations for a constant duty cycle, so its period causes
/// no instability.
#[derive(Clone, Debug, PartialEq)]
pub struct Converter {
    amperes: f64,
    volts: f64,
    transition: Transition,
}

/// A linear step: `next = a * state + b * duty`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transition {
    pub(crate) a: [[f64; 2]; 2],
    pub(crate) b: [f64; 2],
}

impl Converter {
    /// Returns the converter `index`, discharged.
    pub fn new(params: &Params, index: usize) -> Self {
        // The spread is the same in each run: multiples of the golden ratio fill [-1, 1) evenly.
        let spread = |n: usize| (n as f64 * 0.618_033_988_749_895).fract() * 2.0 - 1.0;
        let l = params.inductance * (1.0 + params.tolerance * spread(2 * index + 1));
        let c = params.capacitance * (1.0 + params.tolerance * spread(2 * index + 2));
        Converter {
            amperes: 0.0,
            volts: 0.0,
            transition: Transition::new(params, l, c),
        }
    }

    /// Runs for one loop period with `duty` between 0 and 1 (other values are clamped), and returns the
    /// output voltage.
    pub fn step(&mut self, duty: f64) -> f64 {
        let Transition { a, b } = &self.transition;
        let duty = if duty.is_finite() {
            duty.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let (i, v) = (self.amperes, self.volts);
        self.amperes = a[0][0] * i + a[0][1] * v + b[0] * duty;
        self.volts = a[1][0] * i + a[1][1] * v + b[1] * duty;
        self.volts
    }

    /// Returns the output voltage in volts.
    pub fn volts(&self) -> f64 {
        self.volts
    }
}

impl Transition {
    pub(crate) fn new(params: &Params, inductance: f64, capacitance: f64) -> Self {
        let h = params.converter_period.as_secs_f64();
        // The duty cycle is a third, constant state, so that one matrix exponential gives both parts.
        let generator = [
            [
                -params.inductor_ohms / inductance,
                -1.0 / inductance,
                params.input_volts / inductance,
            ],
            [1.0 / capacitance, -1.0 / (params.load_ohms * capacitance), 0.0],
            [0.0; 3],
        ];
        let e = exponential(generator.map(|row| row.map(|x| x * h)));
        Transition {
            a: [[e[0][0], e[0][1]], [e[1][0], e[1][1]]],
            b: [e[0][2], e[1][2]],
        }
    }
}

type Matrix = [[f64; 3]; 3];

/// Returns the exponential of a matrix, by scaling and squaring of the Taylor series.
fn exponential(m: Matrix) -> Matrix {
    let norm = m.iter().flatten().fold(0.0_f64, |max, x| max.max(x.abs()));
    // When `m` is scaled to below 2^-3, twelve terms have a smaller error than rounding.
    let squarings = (norm.log2().ceil() + 3.0).clamp(0.0, 64.0) as i32;
    let m = m.map(|row| row.map(|x| x * 2.0_f64.powi(-squarings)));
    let mut sum: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let mut term = sum;
    for k in 1..=12 {
        term = product(&term, &m).map(|row| row.map(|x| x / f64::from(k)));
        for (s, t) in sum.iter_mut().flatten().zip(term.iter().flatten()) {
            *s += t;
        }
    }
    for _ in 0..squarings {
        sum = product(&sum, &sum);
    }
    sum
}

fn product(x: &Matrix, y: &Matrix) -> Matrix {
    std::array::from_fn(|r| std::array::from_fn(|c| (0..3).map(|k| x[r][k] * y[k][c]).sum()))
}
