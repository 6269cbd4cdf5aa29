use super::*;
use proptest::prelude::*;

#[test]
fn p31_a_name_that_is_put_together_is_filled_in() {
    for (command, filled) in [
        ("x=r; y=m; $x$y -r DIR", "rm -r DIR"),
        ("x=rm\n\"$x\" -r DIR", "rm -r DIR"),
        ("x=rm; ${x} -r DIR", "rm -r DIR"),
        ("x=r; x+=m; $x -r DIR", "rm -r DIR"),
        ("export x=rm; sudo $x -r DIR", "rm -r DIR"),
        ("x=rm; if true; then $x -r DIR; fi", "rm -r DIR"),
        ("x=rm; echo $($x -r DIR)", "rm -r DIR"),
        ("x=rm; find . -exec $x -r {} +", "rm -r {} +"),
        ("x=rm; ls | xargs -n 1 $x -r", "rm -r"),
        ("$(echo rm) -r DIR", "rm -r DIR"),
        ("`printf rm` -r DIR", "rm -r DIR"),
        ("$(which rm) -r DIR", "rm -r DIR"),
        ("$'rm' -r DIR", "rm -r DIR"),
        ("$TOOLS/bin/rm -r DIR", "rm -r DIR"),
        ("cat <<EOF\n$(x=rm; /bin/$x -r DIR)\nEOF", "$x -r DIR"),
    ] {
        let names = names(command);
        let found = names.filled.iter().any(|found| found == filled);
        assert!(found || (names.unknown.is_some() && filled.starts_with('$')), "{command}: {names:?}");
    }
}

#[test]
fn p31_a_name_that_nobody_can_know_is_unknown() {
    for command in [
        "$x -r DIR",
        "\"$CLEANUP\" -r DIR",
        "$(cat name) -r DIR",
        "`cat name` -r DIR",
        "true && $x -r DIR",
        "if $x; then ls; fi",
        "read x; $x -r DIR",
        "x=ls; read x; $x -r DIR",
        "x=ls y; $x -r DIR",
        "false && x=ls; $x -r DIR",
        "(x=ls); $x -r DIR",
        "if c; then x=ls; fi; $x -r DIR",
        "for x in rm; do $x -r DIR; done",
        "x=(rm ls); $x -r DIR",
        "/bin/r? -r DIR",
        "/???/rm* -r DIR",
        "{rm,-r,DIR}",
        "$'\\x72m' -r DIR",
        "sudo -u root $x DIR",
        "env A=b $x DIR",
        "timeout 5 $x DIR",
        "find . -exec $x {} +",
        "echo a; $1 b",
        "echo \"$($x)\"",
        "cat <<EOF\n$($x)\nEOF",
        "(($x -r DIR); (true))",
        "(( $($x -r DIR) ))",
        "echo $(( $($x) + 1 ))",
        "echo $(case a in a) $x -r DIR;; esac)",
        "2>/dev/null $x -r DIR",
        ">out $x -r DIR",
        "function f { $x -r DIR; }; f",
        "for ((i=0;i<3;i++)) { $x; }",
        "echo ${y:-$($x)}",
    ] {
        assert!(names(command).unknown.is_some(), "{command}: {:?}", names(command));
    }
}

#[test]
fn what_a_command_writes_is_seen() {
    for (command, written) in [
        ("echo x >> $HOME/.bashrc", "~/.bashrc"),
        ("echo x | sudo tee -a ~/.profile", "~/.profile"),
        ("cp -r a b .git/hooks/", ".git/hooks/"),
        ("cp .bashrc ~", "~/.bashrc"),
        ("f=~/.zshrc; sed -i s/a/b/ $f", "~/.zshrc"),
        ("dd if=a of=/etc/x", "/etc/x"),
        ("echo '* * * * * x' | crontab -", CRONTABS),
        (
            "if true; then cat <<EOF > ~/.config/autostart/x.desktop\nx\nEOF\nfi",
            "~/.config/autostart/x.desktop",
        ),
        ("echo $(echo y &> out)", "out"),
    ] {
        let names = names(command);
        assert!(names.written.iter().any(|found| found == written), "{command}: {names:?}");
    }
    for command in ["cat ~/.bashrc", "cp ~/.bashrc copy", "crontab -l", "sed s/a/b/ ~/.bashrc", "ls 2>&1"] {
        let written = names(command).written;
        assert!(
            written.iter().all(|path| !path.starts_with('~') && path != CRONTABS),
            "{command}: {written:?}"
        );
    }
}

#[test]
fn ordinary_commands_are_no_riddle() {
    for command in [
        "ls $DIR",
        "echo \"$HOME\" > $OUT; cat $OUT",
        "for f in *.txt; do wc -l \"$f\"; done",
        "x=5; echo $((x + 1)) && [ $x -gt 3 ]",
        "[[ -n $x && $y == z* || ( $z ) ]] && echo yes",
        "if [ -f \"$f\" ]; then cat \"$f\"; fi",
        "case \"$1\" in start) echo a;; *) echo b;; esac",
        "cat > run.sh <<'EOF'\n$PYTHON main.py\n* * * * * $x\nEOF\nchmod +x run.sh",
        "cat <<EOF\n$PYTHON main.py\nEOF",
        "awk '{print $1}' file | sort -k2 | head",
        "awk \"{print \\$1}\" file",
        "$HOME/bin/tool --flag \"$x\"",
        "\"$VIRTUAL_ENV/bin/python\" -m pytest",
        "./configure --prefix=$PREFIX && make -j$(nproc) 2>&1 | tee $LOG",
        "A=$B make && git commit -m \"$(cat msg)\"",
        "echo ${x:-$y} ${arr[$i]} ${#x}",
        "diff <(sort $a) <(sort $b)",
        "x=$(date +%s); echo $x",
        "files=($(ls)); echo ${files[0]}",
        "f() { echo \"$1\"; }; f x",
        "while read -r line; do echo $line; done < $file",
        "time make # $x is not run\nls",
        "find . -name '*.py' -exec wc -l {} +",
        "python3 - <<'PY'\nprint('$x')\nPY",
        "echo a 2>$err 1>&2",
        "",
        "((i++)); echo $i",
        "arr[$i]=x; arr[1]=$y; echo $(( $i * 2 ))",
        "echo $(case $a in *.txt) echo b;; esac)",
    ] {
        assert_eq!(names(command).unknown, None, "{command}: {:?}", names(command));
    }
}

proptest! {
    #[test]
    fn reading_ends_whatever_is_read(text in "[ax$(){}\\[\\]<>|&;=`'\"\\\\\n #*]{0,60}") {
        let _ = names(&text);
    }
}

#[test]
fn a_long_nest_is_read_quickly() {
    for text in [
        "$(".repeat(50_000),
        "`".repeat(50_000),
        "${x".repeat(40_000),
        "(".repeat(100_000),
        "<(".repeat(50_000),
        "x=$x$x;".repeat(10_000),
    ] {
        let _ = names(&text);
    }
}
