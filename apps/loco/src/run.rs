//! `loco run`: starts the nodes of a job, on this machine or by `ssh` on others, and waits for their end.

use std::ffi::OsString;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use loco::fabric::{
    Address, FabricChoice, FabricError, Hosts, Job, NodeId, Platform, Rendezvous, Secret, Std, var,
};
use loco_app::time;

use crate::error::CliError;
use crate::join::that_joins;
use crate::launcher::{Node, Plan, Remote, is_name, launch};
use crate::timeline;

/// Start N nodes running PROGRAM; end all of them when one fails.
///
/// Each node's output is prefixed by its id. The lowest node of this machine gets the standard input. Signals
/// are forwarded. The exit code is that of the first node that failed (128 plus the signal if one killed it),
/// 128 plus the signal if the job was interrupted, 124 if it ran past --timeout, 127 if PROGRAM is not found.
///
/// With --hosts, this starts the nodes of the file that live on this machine: run it on each machine, with the same
/// file and the same LOCO_SECRET.
///
/// With --hosts and --ssh, this starts every node of the file on its host by ssh, once, from any machine: in this directory, with
/// the variables that begin with LOCO_ and those of --export, under LOCO_SECRET or a random secret, which no process list shows.
/// PROGRAM must be on each host under the same name. ssh must work without a question. If it fails, the exit code is 255. What
/// a node leaves on its host is ended with it, also when this command is killed.
///
/// With --hosts and --nodes-max, nodes may join the job while it runs: with --hosts and --join, this starts one more node, here,
/// of the job that was started with the same file and the same LOCO_SECRET (and LOCO_JOB, if it was set). The job gives it its id.
/// It leaves when PROGRAM ends. Jobs under mpirun or Slurm, and those of -n, have a fixed number of nodes.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("who").required(true).args(["nodes", "hosts"]))]
pub struct Args {
    /// Number of nodes, all on this machine.
    #[arg(short, long, value_name = "N", value_parser = loco_app::number::<u16>(1..))]
    nodes: Option<u16>,
    /// Hosts file (`id host[:port]` per line).
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Start each node of the hosts file on its host by ssh.
    #[arg(long, requires = "hosts", conflicts_with = "nodes")]
    ssh: bool,
    /// Give the job room for N nodes, counting each attempt to join, so that nodes may join it later.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u16>(1..))]
    nodes_max: Option<u16>,
    /// Start one node, here, that joins the running job of the hosts file.
    #[arg(long, conflicts_with_all = ["ssh", "nodes_max", "trace"])]
    join: bool,
    /// The ssh to call, with its options: 'ssh -p 2222 -i KEY'.
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "ssh", value_parser = command)]
    ssh_command: String,
    /// Pass on this variable too, e.g. PATH; may be given several times.
    #[arg(long, value_name = "NAME", requires = "ssh", value_parser = name)]
    export: Vec<String>,
    /// Fabric that the nodes use: shm, verbs (RDMA), tcp, ofi or ofi:PROVIDER (libfabric), or auto (the best that every node has).
    #[arg(long, env = var::FABRIC, value_name = "FABRIC", default_value_t)]
    fabric: FabricChoice,
    /// End the job after this time, such as 90s, 10m or 2h.
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Time between asking nodes to end and killing them.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    grace: Duration,
    /// Let the other nodes go on when one fails.
    #[arg(long)]
    keep_going: bool,
    /// Pass the nodes' output on without node ids.
    #[arg(long)]
    no_prefix: bool,
    /// Write a timeline of all nodes' calls, posts, completions, waits and losses to FILE, for Perfetto and chrome://tracing.
    #[arg(long, value_name = "FILE", conflicts_with = "ssh")]
    trace: Option<PathBuf>,
    /// The program that every node runs, and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM [ARGS]...")]
    command: Vec<OsString>,
}

/// Runs the job and returns its exit code.
pub fn run(args: &Args) -> Result<u8, CliError> {
    args.check_room()?;
    let mut nodes = match (&args.hosts, args.nodes) {
        (Some(path), _) if args.join => vec![that_joins(&hosts_of(path)?, args.fabric)],
        (Some(path), _) if args.ssh => nodes_by_ssh(path, args)?,
        (Some(path), _) => nodes_of_file(path, args)?,
        (None, count) => local_nodes(count.unwrap_or(1), args.fabric)?,
    };
    let trace = args.trace.as_deref().map(Trace::new).transpose()?;
    if let Some(trace) = &trace {
        for node in &mut nodes {
            node.set
                .push((var::TRACE, trace.folder.to_string_lossy().into_owned()));
        }
    }
    let ids: Vec<_> = nodes.iter().map(|node| node.id).collect();
    let ended = launch(&Plan {
        nodes,
        command: args.command.clone(),
        timeout: args.timeout,
        grace: args.grace,
        keep_going: args.keep_going,
        // The id of a node that joins is not known here.
        prefix: !args.no_prefix && !args.join,
        joins: args.join,
        bar: None,
        input: true,
        scratch: trace.as_ref().map(|trace| trace.folder.clone()),
    })?;
    if let Some(mut trace) = trace {
        timeline::merge_job(&trace.folder, &ids, &mut trace.file)?;
    }
    Ok(ended.code)
}

impl Args {
    /// Refuses settings of jobs that grow in a job that cannot.
    fn check_room(&self) -> Result<(), CliError> {
        let option = match self.nodes_max {
            Some(_) => "--nodes-max",
            None if self.join => "--join",
            None => return Ok(()),
        };
        if self.hosts.is_none() {
            return Err(CliError::Usage(format!(
                "{option} needs --hosts FILE: nodes join at the addresses of a hosts file, and those of -n have no known ones \
                 (a file may give all nodes to this machine: `0 localhost`)"
            )));
        }
        require_secret(option)
    }

    /// Returns the variable that gives the job room, if it is to have some.
    fn room(&self, hosts: &Hosts) -> Result<Option<(&'static str, String)>, CliError> {
        let Some(max) = self.nodes_max else {
            return Ok(None);
        };
        let count = hosts.iter().count();
        if usize::from(max) < count {
            return Err(CliError::Usage(format!(
                "--nodes-max {max} is too little for the {count} nodes of the hosts file"
            )));
        }
        Ok(Some((var::NODES_MAX, max.to_string())))
    }
}

/// The timeline of a job: the file that is asked for, and the folder in which nodes write until the end.
struct Trace {
    file: File,
    folder: PathBuf,
}

impl Trace {
    fn new(path: &Path) -> Result<Trace, CliError> {
        let name = format!("loco-trace-{}", Secret::random_text()?);
        Ok(Trace {
            file: timeline::create(path)?,
            folder: std::env::temp_dir().join(name),
        })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Files that cannot be removed stay in a folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns `count` nodes of this machine. They meet at a rendezvous served here, under a secret that nobody
/// else has.
pub fn local_nodes(count: u16, fabric: FabricChoice) -> Result<Vec<Node>, CliError> {
    let rendezvous = Rendezvous::on_loopback()?;
    let address = rendezvous.address().to_string();
    let secret = Secret::random_text()?;
    let job = format!("run-{}", Secret::random_text()?);
    let nodes: Vec<_> = (0..count).map(NodeId).collect();
    let described = nodes.iter().map(|&node| Node {
        id: node,
        unset: vec![
            var::HOSTS,
            var::HOSTS_TEXT,
            var::JOIN,
            var::RENDEZVOUS,
            var::SECRET_FILE,
        ],
        set: vec![
            (var::NODE, node.0.to_string()),
            (var::NODES, count.to_string()),
            (var::LAUNCHER, address.clone()),
            (var::JOB, job.clone()),
            (var::SECRET, secret.clone()),
            (var::FABRIC, fabric.to_string()),
        ],
        departures: Some(rendezvous.departures()),
        remote: None,
    });
    let described = described.collect();
    let shared = Secret::new(secret.into_bytes())?;
    // The nodes have deadlines of their own. This one only bounds the thread, which ends with the process
    // anyway.
    let deadline = Std.now().after(Duration::from_secs(24 * 3600));
    thread::Builder::new()
        .name("loco-rendezvous".to_owned())
        .spawn(move || {
            if let Err(error) = rendezvous.serve(&job, &shared, &nodes, deadline) {
                tracing::warn!(%error, "the rendezvous ended");
            }
        })
        .map_err(CliError::os("starting the thread of the rendezvous"))?;
    Ok(described)
}

/// Reads a hosts file. One that cannot be read is a mistake of the command, as one with a mistake in it is.
fn hosts_of(path: &Path) -> Result<Hosts, CliError> {
    Hosts::read(path).map_err(|error| match error {
        FabricError::Os { .. } => CliError::Usage(error.to_string()),
        error => error.into(),
    })
}

/// Returns the nodes of a hosts file that live on this machine.
fn nodes_of_file(path: &Path, args: &Args) -> Result<Vec<Node>, CliError> {
    let hosts = hosts_of(path)?;
    let path = path
        .canonicalize()
        .map_err(CliError::os("finding the hosts file"))?;
    let (here, elsewhere): (Vec<_>, Vec<_>) = hosts.iter().partition(|(_, address)| is_here(address));
    if here.is_empty() {
        return Err(CliError::Usage(format!(
            "no node of {} lives on this machine",
            path.display()
        )));
    }
    let mut common = vec![
        (var::HOSTS, path.to_string_lossy().into_owned()),
        (var::FABRIC, args.fabric.to_string()),
    ];
    common.extend(args.room(&hosts)?);
    let is_set = |name| std::env::var_os(name).is_some();
    if !is_set(var::SECRET) && !is_set(var::SECRET_FILE) {
        if !elsewhere.is_empty() {
            return Err(CliError::Usage(format!(
                "not on this machine: {}; set the same {} or {} on all machines",
                elsewhere
                    .iter()
                    .map(|(node, address)| format!("{node} ({address})"))
                    .collect::<Vec<_>>()
                    .join(", "),
                var::SECRET,
                var::SECRET_FILE
            )));
        }
        common.push((var::SECRET, Secret::random_text()?));
        common.push((var::JOB, format!("run-{}", Secret::random_text()?)));
    }
    let node = |(id, _): &(NodeId, &Address)| Node {
        id: *id,
        unset: vec![
            var::HOSTS_TEXT,
            var::JOIN,
            var::LAUNCHER,
            var::NODES,
            var::RENDEZVOUS,
        ],
        set: [(var::NODE, id.0.to_string())]
            .into_iter()
            .chain(common.clone())
            .collect(),
        departures: None,
        remote: None,
    };
    Ok(here.iter().map(node).collect())
}

/// Returns the nodes of a hosts file, to be started on their hosts.
fn nodes_by_ssh(path: &Path, args: &Args) -> Result<Vec<Node>, CliError> {
    let hosts = hosts_of(path)?;
    let job = match set(var::JOB)? {
        Some(job) => job,
        // Those that join do not know a random one.
        None if args.nodes_max.is_some() => Job::DEFAULT_ID.to_owned(),
        None => format!("run-{}", Secret::random_text()?),
    };
    // The other hosts may not have the file, and need not agree about default ports.
    let listed: String = hosts
        .iter()
        .map(|(node, address)| format!("{} {address}\n", node.0))
        .collect();
    let mut common = vec![
        (var::HOSTS_TEXT, listed),
        (var::FABRIC, args.fabric.to_string()),
        (var::SECRET, secret()?),
        (var::JOB, job),
    ];
    common.extend(args.room(&hosts)?);
    let node = |(id, address): (NodeId, &Address)| {
        let host = address.host();
        if host.starts_with('-') {
            let file = path.display();
            return Err(CliError::Usage(format!(
                "{file}: ssh takes the host `{host}` for an option"
            )));
        }
        Ok(Node {
            id,
            unset: vec![
                var::HOSTS,
                var::JOIN,
                var::LAUNCHER,
                var::NODES,
                var::RENDEZVOUS,
                var::SECRET_FILE,
            ],
            set: [(var::NODE, id.0.to_string())]
                .into_iter()
                .chain(common.clone())
                .collect(),
            departures: None,
            remote: Some(Remote {
                ssh: args.ssh_command.clone(),
                host: host.to_owned(),
                export: args.export.clone(),
            }),
        })
    };
    hosts.iter().map(node).collect()
}

/// Returns the secret that the environment gives, or names a file of; else a random one.
fn secret() -> Result<String, CliError> {
    let secret = match (set(var::SECRET)?, set(var::SECRET_FILE)?) {
        (Some(secret), _) => secret,
        (None, Some(path)) => {
            let text = loco_litmus::read_text(Path::new(&path)).map_err(|source| CliError::File {
                what: format!("reading the secret from {path} ({})", var::SECRET_FILE),
                source,
            })?;
            text.trim_ascii().to_owned()
        }
        (None, None) => Secret::random_text()?,
    };
    // The nodes would each refuse it.
    Secret::new(secret.as_bytes())?;
    Ok(secret)
}

/// Refuses `option` where there is no secret that the nodes of a job could share with those that join it.
fn require_secret(option: &str) -> Result<(), CliError> {
    if set(var::SECRET)?.is_some() || set(var::SECRET_FILE)?.is_some() {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "{option} needs the secret that the job and the nodes that join it share: set {} or {}, the same for all",
        var::SECRET,
        var::SECRET_FILE
    )))
}

/// Returns the value of a variable; an empty one counts as unset.
fn set(name: &str) -> Result<Option<String>, CliError> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.into_string();
    text.map(Some)
        .map_err(|_| CliError::Usage(format!("the value of {name} is not UTF-8")))
}

/// Returns whether the address belongs to this machine: one can listen there.
fn is_here(address: &Address) -> bool {
    address
        .resolve()
        .is_ok_and(|found| found.iter().any(|at| TcpListener::bind((at.ip(), 0)).is_ok()))
}

fn command(text: &str) -> Result<String, String> {
    let command = text.trim();
    if command.is_empty() {
        return Err("no command".to_owned());
    }
    Ok(command.to_owned())
}

fn name(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` cannot be the name of a variable");
    is_name(text).then(|| text.to_owned()).ok_or_else(wrong)
}
