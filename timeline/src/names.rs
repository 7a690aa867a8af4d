//! Packages of the classes that were loaded and compiled, as far as they are named.

use std::collections::{HashMap, VecDeque};

use proto::v1;

use crate::counted::Compiler;

/// Names that are kept; of more, the oldest goes.
const NAMES_MAX: usize = 8192;
/// Names that one may come too late by: CPUs tell independently, microseconds apart.
const LATE_MAX: usize = 64;
/// Packages of a span that are told.
const PACKAGES_MAX: usize = 20;
/// Stands for the packages past the limit.
const OTHER: &str = "(other)";

#[derive(Debug)]
struct Name {
    at_ns: u64,
    package: String,
    /// `None`: it was loaded.
    compiled: Option<Compiler>,
}

/// Names in the order of their instants.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: VecDeque<Name>,
}

impl Names {
    pub fn loaded(&mut self, at_ns: u64, package: &str) {
        self.insert(Name { at_ns, package: package.to_owned(), compiled: None });
    }

    pub fn compiled(&mut self, at_ns: u64, package: &str, compiler: Compiler) {
        self.insert(Name { at_ns, package: package.to_owned(), compiled: Some(compiler) });
    }

    fn insert(&mut self, mut name: Name) {
        let later = self.names.iter().rev().take(LATE_MAX).take_while(|later| later.at_ns > name.at_ns);
        let index = self.names.len() - later.count();
        if let Some(before) = index.checked_sub(1) {
            name.at_ns = name.at_ns.max(self.names[before].at_ns);
        }
        self.names.insert(index, name);
        if self.names.len() > NAMES_MAX {
            self.names.pop_front();
        }
    }

    /// What was loaded and compiled after one instant and up to another, the most first.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> Vec<v1::Package> {
        let by = |at_ns| self.names.partition_point(|name| name.at_ns <= at_ns);
        let mut packages: HashMap<&str, v1::Package> = HashMap::new();
        for name in self.names.range(by(from_ns.min(to_ns))..by(to_ns)) {
            let package = packages.entry(&name.package).or_default();
            let count = match name.compiled {
                None => &mut package.classes,
                Some(Compiler::C1) => &mut package.compiles_c1,
                Some(Compiler::C2) => &mut package.compiles_c2,
            };
            *count += 1;
        }
        let named = |(name, package): (&str, v1::Package)| v1::Package { name: name.to_owned(), ..package };
        let mut packages: Vec<v1::Package> = packages.into_iter().map(named).collect();
        packages.sort_by(|a, b| {
            let most = |p: &v1::Package| (p.classes, p.compiles_c1 + p.compiles_c2);
            most(b).cmp(&most(a)).then_with(|| a.name.cmp(&b.name))
        });
        if packages.len() > PACKAGES_MAX {
            let rest = packages.split_off(PACKAGES_MAX - 1);
            let other = v1::Package { name: OTHER.to_owned(), ..v1::Package::default() };
            packages.push(rest.into_iter().fold(other, |sum, package| v1::Package {
                classes: sum.classes + package.classes,
                compiles_c1: sum.compiles_c1 + package.compiles_c1,
                compiles_c2: sum.compiles_c2 + package.compiles_c2,
                ..sum
            }));
        }
        packages
    }

    /// Forgets what no request will ask for.
    pub fn prune(&mut self, before_ns: u64) {
        let old = self.names.partition_point(|name| name.at_ns < before_ns);
        self.names.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(names: &Names, from_ns: u64, to_ns: u64) -> Vec<(String, u64, u64, u64)> {
        let packages = names.between(from_ns, to_ns).into_iter();
        packages.map(|p| (p.name, p.classes, p.compiles_c1, p.compiles_c2)).collect()
    }

    #[test]
    fn packages_of_a_span_come_with_the_most_classes_first() {
        let mut names = Names::default();
        for (at_ns, package) in [(10, "a"), (20, "b"), (40, "b"), (30, "c"), (50, "a")] {
            names.loaded(at_ns, package);
        }
        names.compiled(35, "c", Compiler::C1);
        names.compiled(35, "d", Compiler::C2);
        let row = |name: &str, classes, c1, c2| (name.to_owned(), classes, c1, c2);
        let expect = [row("b", 2, 0, 0), row("c", 1, 1, 0), row("d", 0, 0, 1)];
        assert_eq!(told(&names, 10, 40), expect, "what ends with its begin is not in it");
        names.prune(30);
        assert_eq!(told(&names, 0, 100).iter().map(|row| row.1).sum::<u64>(), 3);
        assert_eq!(told(&names, 40, 10), []);
    }

    proptest! {
        #[test]
        fn whatever_is_named_is_counted_once_and_bounded(
            told in prop::collection::vec((0u64..1_000, 0u32..40, 0u8..3), 0..9_000),
        ) {
            let mut names = Names::default();
            let count = told.len();
            for (at_ns, package, what) in told {
                let package = format!("p{package}");
                match what {
                    0 => names.loaded(at_ns, &package),
                    1 => names.compiled(at_ns, &package, Compiler::C1),
                    _ => names.compiled(at_ns, &package, Compiler::C2),
                }
            }
            names.loaded(0, "p0");
            let packages = names.between(0, u64::MAX);
            let sum: u64 = packages.iter().map(|p| p.classes + p.compiles_c1 + p.compiles_c2).sum();
            let at_begin = names.names.iter().filter(|name| name.at_ns == 0).count();
            prop_assert_eq!(usize::try_from(sum).unwrap() + at_begin, (count + 1).min(NAMES_MAX));
            prop_assert!(packages.len() <= PACKAGES_MAX);
        }
    }
}
