//! A [`Job`] from the environment of a launcher.

use std::collections::BTreeMap;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Result};

use crate::files::read_secret;
use crate::hosts::{Address, Hosts};
use crate::job::{Job, JobBuilder};
use crate::join::Join;
use crate::secret::Secret;
use crate::timeouts::Timeouts;
use crate::var;

/// The first of the ports made from a job's id: they are below the ranges that systems give out by
/// themselves.
const DERIVED_PORT_BASE: u16 = 20_000;
/// The number of ports that can be made from a job's id.
const DERIVED_PORTS: u16 = 10_000;

/// Environment variables, and the parent's process id, which ranks of one host share.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    parent: Option<u32>,
}

impl Environment {
    /// Returns the environment of this process. Variables that are not UTF-8 are left out.
    pub fn of_process() -> Environment {
        Environment {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            parent: Some(std::os::unix::process::parent_id()),
        }
    }

    /// Makes an environment of given variables, for a process without a parent.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        Environment {
            variables: variables
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            parent: None,
        }
    }

    /// Returns the value of a variable; an empty one counts as unset.
    fn var(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.var(name) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| FabricError::Config(format!("{name}={text} is not a number in range")))
    }

    fn required<T: std::str::FromStr>(&self, name: &str, because: &str) -> Result<T> {
        self.number(name)?
            .ok_or_else(|| FabricError::Config(format!("{because}, but {name} is not set")))
    }
}

/// A foreign launcher: the variables in which it puts the rank, the size and the number of ranks on this host.
struct Foreign {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    local_size: &'static str,
}

const FOREIGN: [Foreign; 3] = [
    Foreign {
        name: "OpenMPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
    },
    Foreign {
        name: "PMI",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_size: "MPI_LOCALNRANKS",
    },
    Foreign {
        name: "Slurm",
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        local_size: "",
    },
];

impl Foreign {
    /// Refuses the setting of jobs that grow.
    fn fixes_nodes(&self) -> FabricError {
        FabricError::Config(format!(
            "{} is set, but {} fixes the number of nodes ({} is set): nodes join jobs of `loco run` only",
            var::NODES_MAX,
            self.name,
            self.rank
        ))
    }
}

impl Join {
    /// Returns the job that the environment of this process tells it to join: members at `LOCO_JOIN`, the secret, the job's id and
    /// timeouts as for [`Job::from_env`]. Returns none if `LOCO_JOIN` is not set. The variables of other launchers do not count: a shell
    /// in an allocation of Slurm has them, too.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] naming the variable that is malformed.
    pub fn from_env() -> Result<Option<Join>> {
        Join::from_environment(&Environment::of_process())
    }

    /// Returns the job that `environment` tells a process to join, by the rules of [`from_env`](Join::from_env).
    ///
    /// # Errors
    /// See [`from_env`](Join::from_env).
    pub fn from_environment(env: &Environment) -> Result<Option<Join>> {
        let Some(members) = env.var(var::JOIN) else {
            return Ok(None);
        };
        let members = members
            .split(',')
            .map(|member| Address::parse(member.trim(), None));
        let mut join = Join::by(members.collect::<Result<Vec<_>>>()?)?.timeouts(timeouts(env)?);
        if let Some(id) = env.var(var::JOB) {
            join = join.id(id);
        }
        if let Some(secret) = secret(env)? {
            join = join.secret(secret);
        }
        Ok(Some(join))
    }
}

impl Job {
    /// Returns the job that a launcher's environment describes: `loco run`, else OpenMPI, else PMI (MPICH,
    /// Intel), else Slurm. The variables are listed at [`var`].
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] naming the variable that is missing or malformed and what to set.
    pub fn from_env() -> Result<Job> {
        job(&Environment::of_process())
    }

    /// Returns the job that `environment` describes, by the rules of [`from_env`](Job::from_env).
    ///
    /// # Errors
    /// See [`from_env`](Job::from_env).
    pub fn from_environment(environment: &Environment) -> Result<Job> {
        job(environment)
    }
}

/// Reads the job from the variables of the nearest launcher, as [`Job::from_env`] says. A shell of any launcher may start a newcomer.
fn job(env: &Environment) -> Result<Job> {
    if let Some(node) = env.number(var::NODE)? {
        return ours(env, NodeId(node));
    }
    if env.var(var::JOIN).is_some() {
        return Err(Join::not_asked_for());
    }
    for launcher in &FOREIGN {
        if let Some(rank) = env.number(launcher.rank)? {
            let because = format!("{} is set", launcher.rank);
            let size: u16 = env.required(launcher.size, &because)?;
            if size == 0 || rank >= size {
                return Err(FabricError::Config(format!(
                    "{}={rank} does not fit {}={size}",
                    launcher.rank, launcher.size
                )));
            }
            return foreign(env, launcher, NodeId(rank), size);
        }
    }
    let looked_for = FOREIGN.each_ref().map(|launcher| launcher.rank).join(", ");
    Err(FabricError::Config(format!(
        "this process is not part of a job: none of {}, {looked_for} is set; start it with `loco run -n 3 PROGRAM`, mpirun or srun",
        var::NODE
    )))
}

fn ours(env: &Environment, node: NodeId) -> Result<Job> {
    let builder = builder(env, node, None)?;
    let because = format!("{} is set", var::NODE);
    if let Some(address) = env.var(var::LAUNCHER) {
        return builder.launcher(
            env.required(var::NODES, &because)?,
            Address::parse(address, None)?,
        );
    }
    if let Some((_, hosts)) = hosts(env)? {
        return builder.hosts(hosts);
    }
    if let Some(address) = env.var(var::RENDEZVOUS) {
        return builder.rendezvous(
            env.required(var::NODES, &because)?,
            Address::parse(address, None)?,
        );
    }
    Err(FabricError::Config(format!(
        "{because}, but none of {}, {}, {} is",
        var::LAUNCHER,
        var::HOSTS,
        var::RENDEZVOUS
    )))
}

fn foreign(env: &Environment, launcher: &Foreign, node: NodeId, size: u16) -> Result<Job> {
    if env.var(var::NODES_MAX).is_some() {
        return Err(launcher.fixes_nodes());
    }
    let id = foreign_id(env);
    let builder = builder(env, node, id.clone())?;
    if let Some((name, hosts)) = hosts(env)? {
        let listed = hosts.iter().count();
        if listed != usize::from(size) {
            return Err(FabricError::Config(format!(
                "{name} lists {listed} nodes, but {} started {size}",
                launcher.name
            )));
        }
        return builder.hosts(hosts);
    }
    if let Some(address) = env.var(var::RENDEZVOUS) {
        return builder.rendezvous(size, Address::parse(address, None)?);
    }
    let id = env.var(var::JOB).map(str::to_owned).or(id).ok_or_else(|| {
        FabricError::Config(format!(
            "{} does not tell the job's id: set {}=host:port, where rank 0 will listen",
            launcher.name,
            var::RENDEZVOUS
        ))
    })?;
    let port = derived_port(&id);
    let several_hosts = match launcher.local_size {
        "" => slurm_hosts(env)?.is_some_and(|hosts| hosts > 1),
        name => env.number::<u16>(name)?.is_some_and(|local| local < size),
    };
    let host = if !several_hosts {
        "localhost".to_owned()
    } else if let Some(list) = slurm_list(env) {
        first_host(list)
            .ok_or_else(|| FabricError::Config(format!("`{list}` is not a node list of Slurm")))?
    } else {
        return Err(FabricError::Config(format!(
            "{} started ranks on several hosts: set {}=host:port, where rank 0 will listen",
            launcher.name,
            var::RENDEZVOUS
        )));
    };
    builder.rendezvous(size, Address::parse(&host, Some(port))?)
}

fn builder(env: &Environment, node: NodeId, id: Option<String>) -> Result<JobBuilder> {
    let mut builder = Job::builder(node).timeouts(timeouts(env)?);
    if let Some(nodes_max) = env.number(var::NODES_MAX)? {
        builder = builder.nodes_max(nodes_max);
    }
    if let Some(id) = env.var(var::JOB).map(str::to_owned).or(id) {
        builder = builder.id(id);
    }
    if let Some(secret) = secret(env)? {
        builder = builder.secret(secret);
    }
    Ok(builder)
}

/// Returns the hosts of the hosts file whose text or path the environment has, with the name of that source for errors.
fn hosts(env: &Environment) -> Result<Option<(&str, Hosts)>> {
    if let Some(text) = env.var(var::HOSTS_TEXT) {
        return Ok(Some((var::HOSTS_TEXT, Hosts::parse(var::HOSTS_TEXT, text)?)));
    }
    let Some(path) = env.var(var::HOSTS) else {
        return Ok(None);
    };
    Ok(Some((path, Hosts::read(path.as_ref())?)))
}

impl Secret {
    /// Returns the secret that this process's environment has, or names a file of: `LOCO_SECRET`, else `LOCO_SECRET_FILE`.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when it is too short, and [`FabricError::Os`] when the file cannot be read.
    pub fn of_process() -> Result<Option<Secret>> {
        secret(&Environment::of_process())
    }
}

fn secret(env: &Environment) -> Result<Option<Secret>> {
    if let Some(text) = env.var(var::SECRET) {
        return Secret::new(text.as_bytes()).map(Some);
    }
    let Some(path) = env.var(var::SECRET_FILE) else {
        return Ok(None);
    };
    let text = read_secret(path.as_ref()).map_err(|e| {
        FabricError::os(
            format!("reading the secret from {path} ({})", var::SECRET_FILE),
            &e,
        )
    })?;
    Secret::new(text.trim_ascii()).map(Some)
}

fn timeouts(env: &Environment) -> Result<Timeouts> {
    let default = Timeouts::default();
    let ms = |name, default| Ok(env.number(name)?.map_or(default, Duration::from_millis));
    Ok(Timeouts::default()
        .connect(ms(var::CONNECT_TIMEOUT_MS, default.connect)?)
        .heartbeat_interval(ms(var::HEARTBEAT_MS, default.heartbeat_interval)?)
        .silence(ms(var::SILENCE_MS, default.silence)?)
        .silence_same_host(ms(var::SILENCE_SAME_HOST_MS, default.silence_same_host)?))
}

/// Returns a name of the job under a foreign launcher: the same for all ranks, and different from other jobs
/// at the time.
fn foreign_id(env: &Environment) -> Option<String> {
    if let Some(namespace) = env.var("PMIX_NAMESPACE") {
        return Some(namespace.to_owned());
    }
    if let Some(job) = env.var("SLURM_JOB_ID") {
        let step = env.var("SLURM_STEP_ID").unwrap_or("0");
        return Some(format!("slurm-{job}.{step}"));
    }
    env.parent.map(|parent| format!("parent-{parent}"))
}

fn derived_port(id: &str) -> u16 {
    // FNV-1a: every node must come to the same port, whatever it was built with.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Below `DERIVED_PORTS`, which is a u16.
    let offset = u16::try_from(hash % u64::from(DERIVED_PORTS)).unwrap_or(0);
    DERIVED_PORT_BASE + offset
}

fn slurm_list(env: &Environment) -> Option<&str> {
    ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"]
        .into_iter()
        .find_map(|name| env.var(name))
}

fn slurm_hosts(env: &Environment) -> Result<Option<u32>> {
    for name in ["SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"] {
        if let Some(hosts) = env.number(name)? {
            return Ok(Some(hosts));
        }
    }
    Ok(None)
}

/// Returns the first host of a Slurm node list: `n[01-04,7]-ib,m2` gives `n01-ib`.
fn first_host(list: &str) -> Option<String> {
    let Some((prefix, rest)) = list.split_once('[').filter(|(prefix, _)| !prefix.contains(',')) else {
        let host = list.split(',').next()?;
        return (!host.is_empty()).then(|| host.to_owned());
    };
    let (numbers, rest) = rest.split_once(']')?;
    let number = numbers.split([',', '-']).next().filter(|n| !n.is_empty())?;
    let suffix = rest.split(',').next().unwrap_or_default();
    Some(format!("{prefix}{number}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meeting;

    const SECRET: (&str, &str) = (var::SECRET, "0123456789");

    fn from(variables: &[(&str, &str)]) -> Result<Job> {
        job(&Environment::of(variables.iter().copied().chain([SECRET])))
    }

    fn error(variables: &[(&str, &str)]) -> String {
        from(variables).unwrap_err().to_string()
    }

    fn meets_at(job: &Job) -> String {
        match job.meeting() {
            Meeting::Node(address) => format!("node {address}"),
            Meeting::Launcher(address) => format!("launcher {address}"),
            Meeting::Hosts(hosts) => format!("{} hosts", hosts.iter().count()),
        }
    }

    #[test]
    fn our_launcher_comes_before_all_others() {
        let job = from(&[
            ("LOCO_NODE", "1"),
            ("LOCO_NODES", "3"),
            ("LOCO_LAUNCHER", "127.0.0.1:99"),
            ("LOCO_JOB", "j7"),
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_SIZE", "6"),
        ])
        .unwrap();
        assert_eq!((job.node(), job.nodes().len(), job.id()), (NodeId(1), 3, "j7"));
        assert_eq!(meets_at(&job), "launcher 127.0.0.1:99");
    }

    #[test]
    fn openmpi_comes_before_pmi_and_pmi_before_slurm() {
        let mut variables = vec![
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "2"),
            ("SLURM_JOB_ID", "17"),
        ];
        assert_eq!(from(&variables).unwrap().node(), NodeId(0));
        variables.extend([("PMI_RANK", "1"), ("PMI_SIZE", "2")]);
        assert_eq!(from(&variables).unwrap().node(), NodeId(1));
        variables.extend([("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "3")]);
        assert_eq!(from(&variables).unwrap().node(), NodeId(2));
    }

    #[test]
    fn ranks_of_one_host_meet_on_loopback_at_a_port_of_their_job() {
        let at = |namespace, rank| {
            let job = from(&[
                ("OMPI_COMM_WORLD_RANK", rank),
                ("OMPI_COMM_WORLD_SIZE", "4"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
                ("PMIX_NAMESPACE", namespace),
            ]);
            meets_at(&job.unwrap())
        };
        assert!(at("prterun-1", "0").starts_with("node localhost:2"));
        assert_eq!(at("prterun-1", "0"), at("prterun-1", "3"));
        assert_ne!(at("prterun-1", "0"), at("prterun-2", "0"));
    }

    #[test]
    fn ranks_of_several_hosts_need_a_rendezvous() {
        let mut variables = vec![
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "4"),
            ("MPI_LOCALNRANKS", "2"),
            ("PMIX_NAMESPACE", "x"),
        ];
        assert!(error(&variables).contains("set LOCO_RENDEZVOUS=host:port"));
        variables.push(("LOCO_RENDEZVOUS", "alpha:9000"));
        assert_eq!(meets_at(&from(&variables).unwrap()), "node alpha:9000");
    }

    #[test]
    fn slurm_over_several_hosts_meets_at_the_first() {
        let job = from(&[
            ("SLURM_PROCID", "3"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_NNODES", "2"),
            ("SLURM_JOB_NODELIST", "c[07-08],d1"),
        ])
        .unwrap();
        assert_eq!(job.id(), "slurm-17.0");
        assert!(meets_at(&job).starts_with("node c07:2"), "{}", meets_at(&job));
    }

    #[test]
    fn node_lists_of_slurm() {
        for (list, first) in [
            ("a", Some("a")),
            ("a,b[1-2]", Some("a")),
            ("n[01-04,7]-ib,m2", Some("n01-ib")),
            ("n[3,5]", Some("n3")),
            ("n[", None),
            ("n[]", None),
            ("", None),
        ] {
            assert_eq!(first_host(list).as_deref(), first, "{list:?}");
        }
    }

    #[test]
    fn hosts_files_are_used_under_any_launcher() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        std::fs::write(&path, "0 a\n1 b\n").unwrap();
        let path = path.to_str().unwrap();
        let job = from(&[("LOCO_NODE", "1"), ("LOCO_HOSTS", path)]).unwrap();
        assert_eq!((meets_at(&job).as_str(), job.nodes().len()), ("2 hosts", 2));
        let job = from(&[("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("LOCO_HOSTS", path)]).unwrap();
        assert_eq!(meets_at(&job), "2 hosts");
        let found = error(&[("PMI_RANK", "1"), ("PMI_SIZE", "3"), ("LOCO_HOSTS", path)]);
        assert!(found.ends_with("lists 2 nodes, but PMI started 3"), "{found}");
        // The text comes before the file.
        let text = ("LOCO_HOSTS_TEXT", "0 a\n1 b\n4 c\n");
        let job = from(&[("LOCO_NODE", "4"), ("LOCO_HOSTS", path), text]).unwrap();
        assert_eq!(meets_at(&job), "3 hosts");
        let found = error(&[("LOCO_NODE", "0"), ("LOCO_HOSTS_TEXT", "0 a\nb 1\n")]);
        assert!(found.contains("LOCO_HOSTS_TEXT:2: "), "{found}");
        let found = error(&[("LOCO_NODE", "2"), ("LOCO_HOSTS", path)]);
        assert_eq!(found, "node 2 is not part of the job: it has nodes 0, 1");
    }

    #[test]
    fn what_is_missing_or_malformed_is_named() {
        for (variables, expected) in [
            (
                &[][..],
                "this process is not part of a job: none of LOCO_NODE, OMPI_",
            ),
            (
                &[("LOCO_JOIN", "a:1"), ("SLURM_PROCID", "0")],
                "LOCO_JOIN is set, but this program",
            ),
            (&[("LOCO_NODE", "x")], "LOCO_NODE=x is not a number"),
            (
                &[("LOCO_NODE", "0")],
                "LOCO_NODE is set, but none of LOCO_LAUNCHER, LOCO_HOSTS, LOCO_RENDEZVOUS is",
            ),
            (
                &[("LOCO_NODE", "0"), ("LOCO_RENDEZVOUS", "h:1")],
                "LOCO_NODE is set, but LOCO_NODES is not set",
            ),
            (
                &[
                    ("LOCO_NODE", "0"),
                    ("LOCO_NODES", "0"),
                    ("LOCO_RENDEZVOUS", "h:1"),
                ],
                "a job needs at least one node",
            ),
            (
                &[("LOCO_NODE", "0"), ("LOCO_NODES", "1"), ("LOCO_RENDEZVOUS", "h")],
                "`h` is not an address: the port is missing",
            ),
            (&[("PMI_RANK", "0")], "PMI_RANK is set, but PMI_SIZE is not set"),
            (
                &[("PMI_RANK", "2"), ("PMI_SIZE", "2")],
                "PMI_RANK=2 does not fit PMI_SIZE=2",
            ),
            (
                &[("PMI_RANK", "0"), ("PMI_SIZE", "2")],
                "PMI does not tell the job's id: set LOCO_RENDEZVOUS",
            ),
            (
                &[("LOCO_NODE", "0"), ("LOCO_HEARTBEAT_MS", "soon")],
                "LOCO_HEARTBEAT_MS=soon is not a number",
            ),
        ] {
            let found = error(variables);
            assert!(found.starts_with(expected), "{variables:?}: {found}");
        }
    }

    #[test]
    fn silence_must_be_longer_than_heartbeats() {
        let found = error(&[
            ("LOCO_NODE", "0"),
            ("LOCO_NODES", "1"),
            ("LOCO_RENDEZVOUS", "h:1"),
            ("LOCO_HEARTBEAT_MS", "800"),
        ]);
        assert!(found.starts_with("a peer may be silent for 1s"), "{found}");
    }

    #[test]
    fn a_secret_is_needed_and_can_come_from_a_file() {
        let base = [
            ("LOCO_NODE", "0"),
            ("LOCO_NODES", "1"),
            ("LOCO_RENDEZVOUS", "h:1"),
        ];
        let with = |more: &[(&str, &str)]| {
            job(&Environment::of(
                base.iter().chain(more).map(|&(name, value)| (name, value)),
            ))
        };
        let found = with(&[]).unwrap_err().to_string();
        assert!(found.starts_with("the job has no secret"), "{found}");
        let found = with(&[("LOCO_SECRET", "short")]).unwrap_err().to_string();
        assert!(
            found.starts_with("a secret has at least 8 bytes, not 5"),
            "{found}"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "0123456789\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let job = with(&[("LOCO_SECRET_FILE", path.to_str().unwrap())]).unwrap();
        assert_eq!(job.secret.bytes(), b"0123456789");
        assert_eq!(format!("{:?}", job.secret), "Secret(..)");
        assert!(with(&[("LOCO_SECRET_FILE", "/nonexistent")]).is_err());
    }
}
