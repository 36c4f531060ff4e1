//! Shapes of random programs in families that separate the models. Used by the tests that compare two implementations.

use mowgli::generate::Shape;

/// The families, with their names.
pub const SHAPES: [(&str, Shape); 9] = [
    ("cpu", Shape::CPU),
    (
        "cpu-3-locations",
        Shape {
            locations: 3,
            instructions: 10,
            ..Shape::CPU
        },
    ),
    (
        "remote",
        Shape {
            rmw: false,
            polls: false,
            ..Shape::SMALL
        },
    ),
    (
        "poll",
        Shape {
            rmw: false,
            ..Shape::SMALL
        },
    ),
    (
        "one-location",
        Shape {
            rmw: false,
            locations: 1,
            ..Shape::SMALL
        },
    ),
    (
        "wait",
        Shape {
            rmw: false,
            polls: false,
            waits: true,
            ..Shape::SMALL
        },
    ),
    (
        "rmw",
        Shape {
            instructions: 6,
            ..Shape::SMALL
        },
    ),
    (
        "rmw-wait",
        Shape {
            instructions: 6,
            polls: false,
            waits: true,
            ..Shape::SMALL
        },
    ),
    (
        "control",
        Shape {
            control: true,
            instructions: 6,
            ..Shape::SMALL
        },
    ),
];
