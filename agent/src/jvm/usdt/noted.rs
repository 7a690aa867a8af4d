//! The sites that notes give, group by group.

use std::io::{Read, Seek};

use agent_ebpf::{ARGS, Arg, Site};

use super::{
    Found, arg,
    elf::Image,
    instruction,
    note::{self, Note},
    wanted::{Group, WANTED, Wanted},
};

/// Sites of interest in one file. HotSpot 25 has 11.
pub const MOST_SITES: usize = 64;
/// Characters of an argument that are shown when it cannot be used.
const SHOWN: usize = 64;

/// What the notes of a file give.
pub struct Noted {
    sites: Vec<(Group, Found)>,
    /// Groups with a site that cannot be used.
    spoiled: Vec<Group>,
    /// Whether all of them were read.
    complete: bool,
}

impl Noted {
    /// Reads them.
    pub fn read<R: Read + Seek>(image: &Image<'_, R>, problems: &mut Vec<String>) -> Self {
        let mut noted = Self { sites: Vec::new(), spoiled: Vec::new(), complete: true };
        let mut seen = 0_usize;
        let read = note::each(image, |note| {
            let Some(wanted) = WANTED.iter().find(|wanted| wanted.is(note.provider, note.name)) else {
                return Ok(());
            };
            seen += 1;
            if seen > MOST_SITES {
                return Err(format!("there are more than {MOST_SITES} sites of interest: none is used"));
            }
            noted.add(image, wanted, &note, problems);
            Ok(())
        });
        if let Err(why) = read {
            problems.push(why);
            noted.complete = false;
        }
        noted
    }

    fn add<R: Read + Seek>(
        &mut self,
        image: &Image<'_, R>,
        wanted: &Wanted,
        note: &Note<'_>,
        problems: &mut Vec<String>,
    ) {
        let mut problem = |why: &str| problems.push(format!("{wanted} at {:#x}: {why}", note.pc));
        let offset = match usable(image, note) {
            Ok(offset) => offset,
            Err(why) => {
                problem(why);
                self.spoiled.push(wanted.group);
                return;
            }
        };
        let probe = wanted.probe as u32;
        if self.sites.iter().any(|(_, found)| (found.offset, found.site.probe) == (offset, probe)) {
            return;
        }
        let args = args(image, wanted, note, &mut problem);
        self.sites.push((wanted.group, Found { offset, site: Site { args, probe, pad: 0 } }));
    }

    /// The sites of a group.
    ///
    /// # Errors
    /// Why they do not count all of its work.
    pub fn of(&self, group: Group) -> Result<Vec<Found>, String> {
        if !self.complete {
            return Err("no static probes".to_owned());
        }
        if self.spoiled.contains(&group) {
            return Err("a site of its static probes cannot be used".to_owned());
        }
        let of_it = self.sites.iter().filter(|(of, _)| *of == group);
        let found: Vec<Found> = of_it.map(|(_, found)| *found).collect();
        let is_missing = |wanted: &&Wanted| {
            wanted.group == group && !found.iter().any(|found| found.site.probe == wanted.probe as u32)
        };
        match WANTED.iter().find(is_missing) {
            Some(missing) => Err(format!("no static probe {missing}")),
            None => Ok(found),
        }
    }
}

/// Where in the file a site is, if it can be attached to.
fn usable<R: Read + Seek>(image: &Image<'_, R>, note: &Note<'_>) -> Result<u64, &'static str> {
    if note.semaphore != 0 {
        return Err("it is off until a semaphore in the JVM's memory is raised, which jcold does not touch");
    }
    let offset = image.file_offset(note.pc).ok_or("no code of this file is there")?;
    let code = image.code(offset).ok_or("its instruction cannot be read")?;
    if !instruction::is_site(image.machine, code) {
        return Err("its instruction is no nop");
    }
    Ok(offset)
}

fn args<R: Read + Seek>(
    image: &Image<'_, R>,
    wanted: &Wanted,
    note: &Note<'_>,
    mut problem: impl FnMut(&str),
) -> [Arg; ARGS] {
    let mut args = [arg::NOWHERE; ARGS];
    if wanted.args.is_empty() {
        return args;
    }
    let specs = match arg::split(note.args) {
        Ok(specs) => specs,
        Err(why) => {
            problem(&format!("its arguments are {why}"));
            return args;
        }
    };
    for (arg, index) in args.iter_mut().zip(wanted.args) {
        let Some(spec) = specs.get(*index) else {
            problem(&format!("it has no argument {index}"));
            continue;
        };
        match arg::parse(image.machine, spec) {
            Ok(parsed) => *arg = parsed,
            Err(why) => {
                let shown: String = spec.chars().take(SHOWN).collect();
                problem(&format!("argument {index} is {shown:?}: {why}"));
            }
        }
    }
    args
}
