"""Command lines as a working agent writes them. Every one must pass without an error."""

HONEST = r"""
grep 'a:\d' data.csv
grep \\bword\\b data.csv
grep "\\bword\w" data.csv
sed 's/C:\\a/b/' data.csv
python a.py '$5/day' '\n' a\ b
python script.py
python -u script.py --in /in/input.csv --out /out/output.json
python3 script.py
python3.11 -X utf8 -W error script.py
/usr/bin/python3 /in/script.py
python /in/script.py --verbose
python -c 'print(1); print(2)'
python -c "print(1); print(2)"
python -c "import json; print(json.dumps({'a': [1, 2]}))"
python -c 'x = 3 > 2 and 1 < 2; print(x | 4 & 5)'
python -c 'import csv, sys; rows = list(csv.reader(open("/in/data.csv"))); print(len(rows))'
python -c 'print("a; b & c | d < e > f (g)")'
python -c 'import platform; print(platform.system())'
python -c 'import subprocess; print(subprocess.run(["ls", "/in"], capture_output=True).stdout)'
python -c 'import os; print(os.listdir("/in"))'
python -c 'print(sum(int(x) for x in open("/in/n.txt")))'
python -c 'print(10 / 2 / 5)'
python -c 'print("cost: $5")'
python -c 'print("see https://example.org/home/page")'
python -c "import re; print(re.sub(r'[a-z]+', '*', 'abc'))"
python -m json.tool /in/a.json /out/b.json
python -m zipfile -l /in/a.zip
python -m unittest test_a.py
python -m timeit '1 + 1'
python -m http.server --help
python -m compileall /tmp/a
python -m cProfile script.py
python -m this
python -I script.py
python -Im json.tool /in/a.json
python - --help
python script.py --install-base data.csv
python install_stats.py --input /in/installs.csv
python script.py --title 'Installed packages per host'
python script.py --name "O'Brien"
python script.py --pattern '*.csv' --limit 10
python script.py --expr 'a[0]'
python script.py --path "/in/a file with spaces.csv"
python script.py --json '{"a": 1, "b": [1, 2]}'
python script.py --date 2026-11-22T05:00:00Z
python script.py --ratio 16:9 --range 1..10
python script.py --url https://example.org/a/b
python script.py --url https://example.org:8443/dev/etc/home/x
python script.py --email a@example.org
python script.py --out=/out/a.txt --tmp=/tmp/x --in=/in/a
python script.py --null /dev/null
python script.py a=b c=d
python script.py --sep , --quote "'"
python script.py --percent 50%
python script.py --plus +5 --minus -5
python script.py café naïve 日本
python script.py --env PATH=/in
python script.py --regex '^a.b$'
python script.py --greeting 'Hello, world!'
python script.py --template 'Dear {name}, you owe {amount}'
python script.py {}
python script.py --empty ''
python script.py "two  spaces" 'tab	inside'
python script.py \"quoted\"
python script.py a\ b
python train.py --split train/dev/test
python script.py --ref origin/main --sha 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
awk '{print $1}' /in/a.txt
awk -F, '{s += $3} END {print s}' /in/data.csv
awk -F'|' '{print $2}' data.txt
awk -F: -v n=3 '$n > 5 && $1 != "x" {print $0; c++}' data.csv
awk 'NR > 1 || /total/ {print $1 / $2}' data.csv
awk '/root|admin/ {n++} END {print n}' log.txt
awk '/home/ {print}' log.txt
awk '$2 ~ /etc/ {print $1}' log.txt
awk 'BEGIN {FS = ","; OFS = "\t"} {print $1, $2 > "/out/a.tsv"}' data.csv
awk '{print "the system (x86) has | pipes"}' data.csv
awk '{ if ($1 > 3) print $2; else print $3 }' data.csv
awk '{n = split($0, a, /[|]/); print n}' data.csv
awk -f prog.awk data.csv
gawk -F, '{gsub(/a|b/, "c"); print}' data.csv
mawk '{print length($0)}' data.csv
awk -F/ '{print $NF}' paths.txt
awk 'length > 80' data.csv
awk '{print system_load}' data.csv
sed 's/a/b/' data.csv
sed -n '1,10p' data.csv
sed -e 's/a/b/g; s/c/d/' data.csv
sed -E 's/(a|b)+/<\1>/g' data.csv
sed '/root/d' data.csv
sed '/etc/!d' data.csv
sed 's/home/root/' data.csv
sed 's|/in/|/out/|' list.txt
sed -i.bak 's/x/y/' /tmp/a
sed '1d;$d' data.csv
sed 'y/abc/ABC/' data.csv
sed -n '/start/,/end/p' data.csv
sed '/^#/d' data.csv
sed 's/e/E/' data.csv
sed 's/a/the/w /out/changed' data.csv
sed '$a\the end' data.csv
sed 's/\//_/g' data.csv
sed -n '$=' data.csv
sed 's/[/;]/,/g' data.csv
sed -f prog.sed data.csv
sed G data.csv
grep -c error log.txt
grep -e a -e b data.csv
grep -E 'a+b*' data.csv
grep '/api/v1/users' access.log
grep -rn 'import os' /in
grep -v '^#' config.txt
grep 'x$' data.csv
grep -P '\d{3}' data.csv
grep -F '*' data.csv
grep -n 'pip install' log.txt
grep -A 3 -B 2 'Traceback' log.txt
grep --include='*.py' -r def /in
grep -f patterns.txt data.csv
jq . data.json
jq '.a | length' data.json
jq -r '.[] | select(.x > 3) | .name' data.json
jq '.items[0]' data.json
jq --arg n 5 '.a == $n' data.json
jq -s 'map(.a) | add / length' data.json
perl -ne 'print if /a|b/' data.csv
perl -pe 's/a/b/g; s/c/d/' data.csv
perl -lane 'print $F[1]' data.csv
perl -e 'print 1 + 2, "\n"; print 3;'
perl script.pl --x
perl -F, -lane 'print "the operating system is $F[0]"' data.csv
ruby -e 'puts 1 + 1; puts 2'
ruby script.rb
node -e 'console.log(1 + 1); console.log(2)'
node script.js --in /in/a
node -p '1 + 1'
php -r 'echo 1 + 1; echo 2;'
lua -e 'print(1); print(2)'
Rscript -e 'x <- c(1, 2); print(mean(x))'
Rscript script.R /in/data.csv
Rscript -e 'print(system.time(sum(1:10)))'
sort -t, -k2,2n data.csv
sort -t/ -k2 data.csv
sort -t / -k 2 data.csv
sort -u -o /out/sorted data.csv
uniq -c data.csv
cut -d, -f1,3 data.csv
cut -d / -f 2 data.csv
cut -d/ -f2 data.csv
cut --delimiter=/ -f2 data.csv
tr a-z A-Z
tr / _
tr -d '\r'
paste -d, a.csv b.csv
paste -s -d / a.csv
join -t , a.csv b.csv
comm -12 a b
wc -l data.csv
head -n 5 data.csv
tail -n +2 data.csv
nl data.csv
rev data.csv
tac data.csv
seq 1 10
seq -s , 1 10
shuf -n 5 data.csv
split -l 100 data.csv /out/part-
fold -w 80 data.txt
od -c data.bin
file data.bin
stat -c %s data.bin
sha256sum data.csv
md5sum data.csv
date -u +%Y/%m/%d
date -d @1700000000
echo hello world
echo 'it is 100% done'
echo "a b"
echo a/b
printf '%s\n' a b
basename /in/a/b.txt .txt
dirname /in/a/b.txt
realpath /in/a
ls -la /in
ls /in /out /tmp
diff -u /in/a.txt /in/b.txt
expr 1 + 2
true
zcat data.gz
cat data.csv
cat -- -a
tar -tf a.tar
tar -xf a.tar -C /tmp
tar xzf a.tar.gz -C /tmp
tar -czf /out/a.tar.gz -C /in data
tar --extract --file a.tar --directory /tmp --strip-components=1
tar -I zstd -xf a.tar.zst
tar --use-compress-program='zstd -d' -xf a.tar.zst
tar -xf a.tar --exclude='*.pyc' --to-stdout
git log --oneline -n 5
git -C /in/repo log --format=%h
git -c color.ui=never log
git -c 'safe.directory=*' -C /in/repo status
git -c core.quotepath=off -C /in/repo ls-files
git -c user.name=a -c user.email=b commit -m 'Fix: a, b'
git diff HEAD~1 HEAD
git log a..b
git log main...dev
git show HEAD:README.md
git grep -n pattern
git diff --text
git clone https://example.org/a.git /tmp/a
git clone --depth 1 --branch main https://example.org/a.git /tmp/a
git config user.name x
git rebase main
git bisect log
git submodule status
git archive --format=tar -o /out/a.tar HEAD
curl -sSf https://example.org/a -o /out/a
curl -H 'Accept: application/json' https://example.org/api/v1
curl --data @/in/body.json https://example.org/a
curl -x http://127.0.0.1:3128 https://example.org
curl -G -d a=1 -d b=2 https://example.org/a
sort -o /out/sorted data.csv
python /in/steps.py
python -c 'import json; print(len(json.load(open("/in/a.json"))))'
curl -d a=b https://example.org/etc/passwd-policy
find /in -name '*.csv'
find /in -type f -exec cat {} +
find /in -exec grep -l a {} +
find . -maxdepth 1
find /in -newer /in/a -print
xargs -n 1 cat
xargs -a /in/list -I{} cat {}
xargs -0 -P 2 grep -c a
timeout 5 python script.py
timeout -k 5 60 python script.py
timeout --signal=INT 5 python -c 'print(1); print(2)'
nice -n 10 python script.py
env A=b python script.py
env -i PATH=/in python script.py
env -u HOME python script.py
env
nohup python script.py
stdbuf -oL python script.py
ionice -c 3 python script.py
taskset -c 0 python script.py
setsid python script.py
flock /tmp/lock python script.py
time -p python script.py
prlimit --nofile=10 python script.py
strace -f -o /out/trace python script.py
busybox ls
grep -- -v data.csv
sed -- p data.csv
taskset -p 1234
timeout
tar --what -xf a.tar
tar xf a.tar -C /tmp
tar -cf - data
git log -- a --exec
git
git --version
rsync -av a b
nc example.org 80
sed -n '/a/,/b/{p;q}' data.csv
sed '\,a,d' data.csv
sed 's/a/b/;t end;s/c/d/;:end' data.csv
sed 'a\more text' data.csv
sed '1~2d' data.csv
sed '/x/I,+3p' data.csv
sed 'N;P;D' data.csv
sed 'unknown?' data.csv
sed 's/open' data.csv
sed 's' data.csv
sed '/open' data.csv
sed '\' data.csv
sed 'y/ab' data.csv
sed 'l 5;=' data.csv
sed 'q5' data.csv
sed 'r /in/a' data.csv
sed '' data.csv
sed 's/\/a/b/' data.csv
awk '' data.csv
awk '"open' data.csv
awk '# a comment | with marks' data.csv
awk '/open' data.csv
awk '{x = y / 2 / 3; print x}' data.csv
awk '{ print $1 /2/ 3 }' data.csv
awk '@include "a"' data.csv
python -c 'print "not Python 3"'
python -c 'import os.path; print(os.path.join("a", "b"))'
python -c 'getattr(x, "y")(1)'
python -c 'import subprocess; subprocess.run([name, "x"])'
python -c 'import os; os.execv(path, args)'
python -c 'import os; os.spawnlp(os.P_WAIT, "ls", "ls", "-l")'
python -c 'import os; os.execvp("ls", ["ls", "/in"])'
python -c 'import sys, subprocess; subprocess.run([sys.executable, "a.py"])'
python -c 'exec(code)'
python -c 'exec("not python (")'
python -c 'f(shell=False)'
python -c 'import platform as p; print(p.system(), p.release())'
python -c 'import sys; print(sys.modules["os"].name)'
python -c 'x = {"system": 1}; print(x["system"])'
python -c 'vars()["x"] = 1'
python -c 'x["a"].b["c"] = d'
python -c 'run = print; run(["ls"])'
python -c 'a, b = 1, 2; c.d = 3; e = f()'
python -c 'getattr(x, name)(1); getattr(x)'
python -c '__import__("json").dumps(1)'
python -c 'import subprocess; subprocess.run()'
python -c 'import os; os.execv(*args)'
awk '/x/ {n[$1]++} END {for (k in n) print n[k], k}' data.csv
find /in -name '*.csv' -exec wc -l {} +
python -c ''
python -c
python -m
python -m runpy
python -W
perl -e
perl -0777 -ne 'print length'
perl -l012 -ne 'print'
perl -i.bak -pe 's/a/b/' /tmp/a
perl -Mstrict -we 'print 1'
ruby -S tool
ruby -S
node --eval
node --input-type module --eval 'console.log(1)'
node --eval='console.log(1)'
jq --arg a b --argjson c 1 '.x' data.json
jq -f prog.jq data.json
jq --from-file prog.jq data.json
jq '.a' -r data.json
grep -r
grep --regexp='a b' data.csv
grep --regexp a data.csv
awk --version
numactl -N 0 python script.py
/in/tool --flag
/opt/tool/bin/run --x
/usr/local/bin/tool
make -f Makefile all
gcc -O2 -o /out/a a.c
cargo build --offline
cargo --version
go run main.go
go test
cmake -S /in/a -B /tmp/b
sqlite3 /in/a.db .tables
ffmpeg -i /in/a.mp4 /out/b.mp4
ls -l '/in/a b'
convert /in/a.png /out/b.jpg
pandoc -o /out/a.html a.md
unzip /in/a.zip -d /tmp/a
zip -r /out/a.zip data
rsync -a /in/a /out/b
openssl dgst -sha256 data.csv
xmllint --noout a.xml
du -sh /in
df /tmp
test -f /in/a
R --version
javac A.java
java -jar /in/a.jar
dot -Tsvg a.dot -o /out/a.svg
python setup.py --version
python make_install_plan.py
docx2txt a.docx
kindle-unpack a.mobi
pipeline --run all
shellcheck-report a
gitstats /in/repo /out/stats
dockerfile-lint /in/Dockerfile
grep -E 'a|b' data.csv
grep -E "a|b" data.csv
egrep '(a|b)' data.csv
find /in -exec cat {} \;
find /in -exec cat {} ';'
find /in '(' -name a -o -name b ')'
curl 'https://example.org/?a=1&b=2'
sort 'a;b'
tr ';' ','
cut -d ';' -f 1 data.csv
cut '-d|' -f1 data.csv
date '+%H;%M'
printf '(%s)' a
"""


def cases() -> list[str]:
    """One command for each line."""
    return [line for line in HONEST.split("\n") if line]
