//! The package of a class: what is kept of its name.

/// Of classes that have none.
const DEFAULT: &str = "(default)";
/// Of classes that the JVM makes at run time, whose names are as many as they are.
const GENERATED: &str = "(generated)";
/// Longest name of a package in bytes; what is longer is cut between two of its parts.
const LONGEST: usize = 96;
/// What only names of classes have that are made at run time: by the JDK for lambdas, method handles and proxies, by
/// Spring, cglib, Byte Buddy, Hibernate, Javassist and Mockito.
const MARKS: &[&str] = &[
    "$$Lambda",
    "+0x",
    "/0x",
    "$$EnhancerBy",
    "$$SpringCGLIB$$",
    "$$FastClassBy",
    "$$KeyFactoryBy",
    "$$BeanGeneratorBy",
    "$ByteBuddy$",
    "$HibernateProxy$",
    "$MockitoMock$",
    "_$$_jvst",
];
/// The same, at the begin.
const BEGINS: &[&str] = &["jdk/internal/reflect/Generated", "sun/reflect/Generated"];
/// The same, at the begin of the last part, before a number.
const PROXY: &str = "$Proxy";

/// The package of a class, by its name as HotSpot keeps it: `org/springframework/web/Foo` is of `org.springframework.web`.
/// The name may be cut off at any place; what stands before its last slash is a package. Never says more than that.
pub fn package(class_name: &str) -> String {
    let simple = class_name.rsplit('/').next().unwrap_or_default();
    let is_proxy =
        simple.strip_prefix(PROXY).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_array = class_name.starts_with('[');
    if is_proxy
        || (!is_array && MARKS.iter().any(|mark| class_name.contains(mark)))
        || BEGINS.iter().any(|begin| class_name.starts_with(begin))
    {
        return GENERATED.to_owned();
    }
    let path = class_name.rsplit_once('/').map_or("", |(path, _)| path);
    if is_array || path.is_empty() || path.split('/').any(|part| part.is_empty() || part.contains(is_foreign))
    {
        return DEFAULT.to_owned();
    }
    let mut package = path.replace('/', ".");
    while package.len() > LONGEST {
        let Some(end) = package.rfind('.') else { return DEFAULT.to_owned() };
        package.truncate(end);
    }
    package
}

/// What stands in no part of a package's name (JVMS 4.2.2), or does not come through whole.
fn is_foreign(c: char) -> bool {
    c.is_control() || c.is_whitespace() || c == char::REPLACEMENT_CHARACTER || ".;[<>()".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_as_hotspot_keeps_them() {
        for (name, expect) in [
            ("org/springframework/web/Foo", "org.springframework.web"),
            ("org/springframework/web/Foo$Bar", "org.springframework.web"),
            ("java/lang/Object", "java.lang"),
            ("java/lang/invoke/LambdaForm$NamedFunction", "java.lang.invoke"),
            ("java/lang/invoke/LambdaForm$Holder", "java.lang.invoke"),
            ("com/example/$ProxyFactory", "com.example"),
            ("de/größe/Maß", "de.größe"),
            // Cut off within the class, and within the package.
            ("org/springframework/boot/autoconfigure/AutoConfi", "org.springframework.boot.autoconfigure"),
            ("org/springframework/bo", "org.springframework"),
            ("org/springframework/", "org.springframework"),
            ("de/größe/M\u{fffd}", "de.größe"),
            ("Main", DEFAULT),
            ("Main$Inner", DEFAULT),
            ("", DEFAULT),
            ("/", DEFAULT),
            ("/a/B", DEFAULT),
            ("a//B", DEFAULT),
            ("[Ljava/lang/String;", DEFAULT),
            ("[[I", DEFAULT),
            ("org.example.Foo", DEFAULT),
            ("org.example/Foo", DEFAULT),
            ("a\u{1b}[2J/B", DEFAULT),
            ("a b/C", DEFAULT),
            ("(other)/C", DEFAULT),
            ("com/example/App$$Lambda+0x00007f3b5c001a40", GENERATED),
            ("com/example/App$$Lambda/0x00007f3b5c001a40", GENERATED),
            ("com/example/App$$Lambda$14+0x0000000800c03000", GENERATED),
            ("com/example/App$$Lam", "com.example"),
            ("Main$$Lambda+0x00007f3b5c001a40", GENERATED),
            ("java/lang/invoke/LambdaForm$MH+0x00007f3b5c002000", GENERATED),
            ("java/lang/invoke/LambdaForm$DMH/0x00007f3b5c002000", GENERATED),
            ("com/example/Config$$EnhancerBySpringCGLIB$$1f0b2c3d", GENERATED),
            ("com/example/Config$$SpringCGLIB$$0", GENERATED),
            ("com/example/Config$$FastClassBySpringCGLIB$$1f0b2c3d", GENERATED),
            ("jdk/proxy2/$Proxy45", GENERATED),
            ("com/sun/proxy/$Proxy1", GENERATED),
            ("$Proxy0", GENERATED),
            ("jdk/internal/reflect/GeneratedMethodAccessor7", GENERATED),
            ("jdk/internal/reflect/GeneratedConstructorAccessor1", GENERATED),
        ] {
            assert_eq!(package(name), expect, "{name}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_says_a_package_and_no_class(
            name in prop_oneof!["([a-z0-9$]{0,40}/){0,6}[A-Za-z0-9$+]{0,30}", any::<String>()],
        ) {
            let package = package(&name);
            prop_assert!(package.len() <= LONGEST && !package.is_empty());
            if package != DEFAULT && package != GENERATED {
                let path = format!("{}/", package.replace('.', "/"));
                prop_assert!(name.starts_with(&path), "{package}");
            }
        }
    }
}
