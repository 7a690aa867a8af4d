//! From a process id to the JVM, its container and its pod.

mod cgroup;
mod launch;
mod node;
mod proc;

pub use self::{
    cgroup::container,
    launch::main_of,
    node::Node,
    proc::{Proc, Task},
};
