"""Command lines that may run code which is not on the screen: the reader guesses nothing, so each is opaque or refused.

`NEW` are attacks that once passed without a mark, by the issue that named them; the others were refused by reading
options and inline code, and are now named opaque instead.
"""

OPAQUE: dict[str, str] = {
    "attacks that passed without a mark": r"""
split --f=id a
sed '/[/]/e id' a
awk 'BEGIN { getline / system("id") / 2}'
perl -ne print 'cmd |'
perl -e 'system lc "ID"'
perl '-Mre;system+id' a
python3 -c "from os import *; system('id')"
python3 -c "import subprocess; subprocess.run('id', executable='sh')"
git -C repo x
php -d auto_prepend_file=/in/a.txt b.php
node --import /in/a.mjs
node --import=/in/a.mjs b.js
ruby '|cmd'
sort --compress-pro=id a
sort -S 1 --compress-program id a
sort -t -- --compress-program=id a
find /in -fprint /out/a -exec id {} +
find /in -name a -execdir id {} +
find /in -okdir id {} +
find /in -delete
jq 'include "a"; .' b.json
jq 'import "a" as $a; .' b.json
jq -L /in . b.json
jq -rf a.jq b.json
jq --from-file a.jq b.json
tar xfI a.tar id
tar tf a:b
tar -tf a:b
tar cf /out/a -T /in/list
curl -K /in/a https://example.org
curl --config /in/a https://example.org
curl --conf /in/a https://example.org
curl -sK/in/a https://example.org
date -s tomorrow
grep --unknown a b
env sort a
xargs cat
timeout 5 cat a
nice cat a
stdbuf -oL cat a
/in/sort a
/opt/a/sort a
Sort a
sort2 a
python -i script.py
python -m script
python -W error::a.b script.py
python - a
python
node -r a b.js
perl -d a.pl
ruby -S a.rb
awk -f a.awk -f b.awk c
awk -v a=b -f a.awk c
sed -f a.sed -e p c
sed -n p c
""",
    "a program that a launcher starts": r"""
env ./a
timeout 5 ./a.py
nice /tmp/a
xargs ./a
find /in -exec ./a {} +
""",
    "options and inline code that reach a shell": r"""
flock /tmp/l -c id
flock -n /tmp/l -c 'id'
flock -w 5 /tmp/l --command id
flock -c id /tmp/l
flock --command=id /tmp/l
strace -o '!id' ls
tar -xf a.tar --to-command=id
tar -xf a.tar --to-command id
tar --to-com=id -xf a.tar
tar -cf /out/a --checkpoint=1 --checkpoint-action=exec=id a
tar -cf /out/a --checkpoint=1 --checkpoint-action exec=id a
tar -cf /out/a --checkpoint-a=exec=id a
tar -xF id -f a.tar
tar -xf a.tar -F id
tar --info-script=id -xf a.tar
tar --new-volume-script=id -cf /out/a a
tar --rsh-command=id -xf a:b
tar --rmt-command=id -xf a:b
tar xFf id a.tar
split --filter=id a
split --filter 'id' a
split --filt=id a
awk 'BEGIN {system("id")}'
awk 'BEGIN { system ("id") }'
awk 'BEGIN {"id" | getline x; print x}'
awk '{print | "id"}' a
awk '{print $0 | "sh"}' a
awk '{print |& "id"}' a
awk -e 'BEGIN {system("id")}'
gawk --source 'BEGIN {system("id")}'
mawk 'BEGIN {system("id")}'
awk -F: -v a=b 'BEGIN {system(a)}'
awk '/a/ {system("id")}' a
awk '{x = $1/2; system("id")}' a
awk 'BEGIN{printf "a" | "cat"}'
sed '1e id' a
sed 'e id' a
sed 's/a/id/e' a
sed 's/a/id/ge' a
sed -n '/a/e id' a
sed -e p -e 'e id' a
sed --expression='s/a/b/e' a
sed 's|a|b|e' a
sed '1,3{e id' a
sed '$!e id' a
sed 's/[/]/x/e' a
python -c 'import os; os.system("id")'
python3 -c 'import os; os.popen("id").read()'
python -c 'import os as o; o.system("id")'
python -c 'from os import system; system("id")'
python -c 'from os import system as s; s("id")'
python -c '__import__("os").system("id")'
python -c 'import importlib; importlib.import_module("os").system("id")'
python -c 'import os; getattr(os, "system")("id")'
python -c 'import subprocess; subprocess.run("id", shell=True)'
python -c 'import subprocess as s; s.Popen("id", shell=1)'
python -c 'from subprocess import call; call("id", shell=True)'
python -c 'import subprocess; print(subprocess.getoutput("id"))'
python -c 'import subprocess; subprocess.run(["sh", "-c", "id"])'
python -c 'import subprocess; subprocess.run(["/usr/bin/bash", "-c", "id"])'
python -c 'import subprocess; subprocess.run(args=["env", "bash"], shell=False) or subprocess.run(["env", "bash"])'
python -c 'import os; os.execvp("sh", ["sh"])'
python -c 'import os; os.execl("/usr/bin/sh", "sh", "-c", "id")'
python -c 'import os; os.spawnlp(os.P_WAIT, "bash", "bash")'
python -c 'import os; os.posix_spawn("/usr/bin/sh", ["sh"], {})'
python -c 'import pty; pty.spawn("sh")'
python -c 'import asyncio; asyncio.create_subprocess_shell("id")'
python -c 'exec("import os; os.system(\"id\")")'
python -c 'eval("__import__(\"os\").system(\"id\")")'
python -c 'import os; s = os.system; s("id")'
python -c 'import os; vars(os)["system"]("id")'
python -c 'import os; os.__dict__["system"]("id")'
python -c 'import sys; sys.modules["os"].system("id")'
python -c 'import ctypes; ctypes.CDLL(None).system(b"id")'
python -c 'import os; list(map(os.system, ["id"]))'
python -c 'o = __import__("os"); o.system("id")'
python -c 'import importlib; m = importlib.import_module("subprocess"); m.run(["sh"])'
python -c 'from importlib import import_module as i; i("os").popen("id")'
python -c 'import posix; posix.system("id")'
python -c 'import subprocess; subprocess.run(args=["bash", "-c", "id"])'
python -c 'import subprocess; subprocess.run(args="bash")'
python -c 'import subprocess; r = subprocess.run; r(["bash"])'
python -c 'import subprocess; subprocess.run("bash")'
python -c 'import asyncio; asyncio.create_subprocess_exec("sh", "-c", "id")'
python -c 'import os; os.execve("/usr/bin/bash", ["x"], {})'
python -c 'eval(compile("import os\nos.system(1)", "", "exec"))'
python -c 'import subprocess as s; s.run(["timeout", "5", "bash"])'
python -c 'getattr(__import__("os"), "popen")("id")'
python -Bc 'import os; os.system("id")'
python -uIc 'import os; os.system("id")'
python -W ignore -c 'import os; os.system("id")'
python -X dev -c 'import os; os.system("id")'
python3.11 -c 'import os; os.system("id")'
python -m timeit 'import os; os.system("id")'
timeout 5 python -c 'import os; os.system("id")'
perl -e 'system("id")'
perl -e 'system "id"'
perl -e 'exec "id"'
perl -e 'print qx/id/'
perl -ne 'system($_)' a
perl -lane 'system(@F)' a
perl -E 'open(F, "id|")'
perl -e 'open F, "|id"'
perl -e 'open(my $f, "-|", "id")'
ruby -e 'system("id")'
ruby -e 'exec "id"'
ruby -e 'puts %x(id)'
ruby -e 'IO.popen("id")'
ruby -ropen3 -e 'Open3.capture2("id")'
ruby -e 'spawn("id")'
node -e 'require("child_process").execSync("id")'
node --eval 'require("child_process")'
node --eval='require("child_process")'
node -p 'require("child_process").execSync("id")'
node -pe 'require("child_process").execSync("id")'
php -r 'system("id");'
php -r 'echo shell_exec("id");'
php -r 'passthru("id");'
php -r 'proc_open("id", [], $p);'
lua -e 'os.execute("id")'
lua -e 'io.popen("id")'
lua5.4 -e 'os.execute("id")'
Rscript -e 'system("id")'
Rscript -e 'system2("id")'
Rscript -e 'pipe("id")'
pdflatex -shell-escape a.tex
socat - EXEC:id
socat - SYSTEM:id
socat exec:id -
python -c 'print "a"; import os; os.system("id")'
python3.11-dbg -c 'import os; os.system("id")'
ipython -c 'import os; os.system("id")'
sed --expr='1e id' a
sed --expr 's/a/b/e' a
sed --expression 's/a/b/e' a
sed -ne 's/a/b/e' a
sed '/a/,/b/e id' a
sed '\,a,e id' a
sed '0~3e id' a
sed 'p;e' a
sed -n '$!{s/a/b/;e id}' a
gawk --sour='BEGIN {system("id")}'
ncat --sh-exec id example.org 80
""",
    "inline code that starts sudo": r"""
python -c 'import subprocess; subprocess.run(["sudo", "ls"])'
""",
    "inline code that starts an engine": r"""
python -c 'import subprocess; subprocess.call(["docker", "ps"])'
""",
    "launchers whose program cannot be read": r"""
env -S 'python a.py'
env -S python
env -S'python a.py'
env -iS 'python a.py'
env --split-string='python a.py'
env --split-string 'python a.py'
env --unknown python a.py
env -q python a.py
timeout --what 5 python a.py
timeout -z 5 python a.py
nice --what python a.py
xargs env
xargs timeout 5
xargs nice
xargs -n 1 env
xargs -I{} {}
xargs -I{} {} a
xargs -i {}
xargs --replace={} {}
xargs -IX X
xargs xargs
xargs busybox
find /in -exec {} +
find /in -exec env {} + -exec {} +
find /in -exec
strace --what ls
env -S python a.py b
env -S "a'" x
env --unset
env -u
nice -n
nice --adjustment
xargs timeout
xargs python -c
xargs -n 1 python3 -m
xargs -I{} python -c {}
xargs perl -e
xargs sed -e
find /in -exec python -m {} +
setarch x86_64 --what ls
busybox --list
stdbuf --what ls
env env env env env env env env env env env ls
nice nice nice nice nice nice nice nice nice nice ls
flock --what /tmp/l ls
""",
    "options that start a program": r"""
git -c core.pager=x log
git -c core.editor=x commit
git -c core.sshCommand=x fetch
git -c core.fsmonitor=x status
git -c core.hooksPath=/in/a commit
git -c alias.x=!id x
git -calias.x=y x
git -c diff.external=x diff
git -c diff.a.textconv=x diff
git -c filter.a.clean=x add
git -c credential.helper=x fetch
git -c gpg.program=x log
git -c include.path=/in/a log
git -c pager.log=x log
git -c sequence.editor=x rebase
git -c protocol.ext.allow=always fetch
git -c merge.a.driver=x merge
git -c uploadpack.packObjectsHook=x log
git -C /in/a -c core.pager=x log
git --git-dir=/in/a/.git -c core.pager=x log
git --config-env=core.pager=A log
git --config-env core.pager=A log
git --exec-path=/in/a log
git -p log
git --paginate log
git grep -Oless a
git grep --open-files-in-pager=x a
git grep --open-files a
git rebase -x id a
git rebase --exec id a
git rebase --exe=id a
git bisect run ls
git submodule foreach ls
git filter-branch --tree-filter ls
git difftool -x id
git difftool --extcmd=id
git mergetool
git clone -u id a b
git clone --upload-pack=id a b
git clone --upload-pack id a b
git clone -c core.pager=x a b
git clone --config core.pager=x a b
git clone --template=/in/a b c
git fetch --upload-pack=id a
git ls-remote --upload-pack=id a
git push --receive-pack=id a
git push --exec=id a
git clone ext::id a
git fetch ext::id
git archive --exec=id --remote=a b
git diff --ext-diff
git log --textconv
git config core.pager x
git config alias.x y
git send-email a
git instaweb
git daemon
git help log
env git -c core.pager=x log
sort --compress-program=x data.csv
sort --compress-program x data.csv
sort --compress-prog=x data.csv
sort --comp=x data.csv
tar -I x -xf a.tar
tar -Ix -xf a.tar
tar --use-compress-program=x -xf a.tar
tar --use-compress-program x -xf a.tar
rsync -e x a b
rsync --rsh=x a b
vim -c x a
gdb -ex x a
man -P x a
rg --pre x a
wget --use-askpass=x https://example.org
gawk -l x 'BEGIN {}'
gawk -lx 'BEGIN {}'
tar -I '' -xf a.tar
tar -xf a.tar -I
tar -I "a'" -xf a.tar
tar --to-nothing=x -xf a.tar
tar -xYI x -f a.tar
gawk --load=x 'BEGIN {}'
ssh -o ProxyCommand=x a
scp -oProxyCommand=x a b
nc -e x example.org 80
fd -x cat
""",
}


def cases() -> list[tuple[str, str]]:
    """(kind, command), one for each line."""
    return [(kind, line) for kind, lines in OPAQUE.items() for line in lines.split("\n") if line]
