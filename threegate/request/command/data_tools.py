"""The data tools whose command lines show all code that runs: a closed table of programs and their harmless
options.

Invariant: an argv is transparent only if the program and every word that begins with a dash are in the table.
Anything not in the table, including an abbreviated long option, is opaque; nothing is guessed. The table is
for GNU tools; programs that start others, and options that do (``sort --compress-program``, ``find -exec``),
are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DataTool:
    """The allowed options of a data tool. A long option is listed without its two dashes, and may take
    ``=value``.
    """

    flags: str = ""
    """Short options without a value."""
    values: str = ""
    """Short options with a value: what is left of their word, or the next word."""
    longs: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    """Words with one dash that are options as a whole (``find -name``)."""
    any_words: bool = False
    """Every word is text or a harmless switch (``echo``, ``test``)."""
    text: bool = False
    """Its words may be patterns, formats, delimiters or addresses, so quoted ``; & | < > ( )`` are text (TG310)."""

    def knows(self, word: str) -> bool:
        """Whether a word that begins with a dash is one of the tool's harmless options."""
        if self.any_words or word in ("-", "--", *self.whole) or _NUMBER.fullmatch(word):
            return True
        if word.startswith("--"):
            return word[2:].partition("=")[0] in self.longs
        for letter in word[1:]:
            if letter in self.values:
                return True
            if letter not in self.flags:
                return False
        return True


# `head -5`, `tail -n -2`: a count; no tool of the table takes digits for anything that starts code.
_NUMBER: Final = re.compile(r"-[0-9]+(?:\.[0-9]+)?[bkKMGT]?")
# What may precede the name of a data tool.
_FOLDERS: Final = ("", "/usr/bin/", "/usr/local/bin/")
# What a jq filter loads from other files; else it computes: it starts no program and writes no file.
_MODULES: Final = re.compile(r"\b(?:import|include|modulemeta)\b")
# tar takes `host:file` for an archive on another machine and starts rsh for it.
_ARCHIVE_HOST: Final = ":"


# A row: names (with * where their words may be text), short options without a value, those with one, then the long ones
# and the words that are options as a whole. `any`: every word is text or a harmless switch. A row may go on.
_TABLE: Final = """\
# text
cat AbeEnstTuv - show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting
head,tail qvz nc lines bytes quiet silent verbose zero-terminated
sort* bdfgiMhnRrVcCmsuz koStT ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting
    month-sort human-numeric-sort numeric-sort random-sort reverse version-sort check merge stable unique
    zero-terminated key output buffer-size field-separator temporary-directory parallel sort
uniq cdDiuz fsw count repeated all-repeated group ignore-case unique zero-terminated skip-fields skip-chars check-chars
wc cmlLw - bytes chars lines max-line-length words total
cut* nsz bcdf bytes characters delimiter fields complement only-delimited output-delimiter zero-terminated
tr* cCdst - complement delete squeeze-repeats truncate-set1
grep,egrep,fgrep* EFGPvioqscnHhLlrRwxyzZabTU eABCmdDf extended-regexp fixed-strings basic-regexp perl-regexp
    invert-match ignore-case only-matching quiet silent no-messages count line-number with-filename no-filename
    files-without-match files-with-matches recursive dereference-recursive word-regexp line-regexp null null-data binary
    byte-offset initial-tab regexp file after-context before-context context max-count directories devices include
    exclude exclude-from exclude-dir color colour label line-buffered no-ignore-case binary-files text
paste* sz d serial zero-terminated delimiters
join* iz aeotv12j header ignore-case check-order nocheck-order zero-terminated
comm* 123z - check-order nocheck-order output-delimiter total zero-terminated
nl* p bdfhilnsvw body-numbering number-format number-separator number-width
fold bs w bytes spaces width
fmt cstu gpw width uniform-spacing split-only
column* tLxnJ cosNOSRTHE table separator output-separator table-columns json
expand i t initial tabs
unexpand a t all first-only tabs
rev,tsort - -
tac* br s before regex separator
shuf erz ino echo input-range head-count output random-source repeat zero-terminated
split dexz abClnt bytes lines line-bytes number suffix-length numeric-suffixes hex-suffixes additional-suffix
    elide-empty-files separator
csplit* kqsz fbn prefix suffix-format digits quiet keep-files elide-empty-files
tee a - append
iconv cls fto from-code to-code output list silent
numfmt z d from to field delimiter format grouping header padding round suffix
printf* any -
echo any -
jq* cnesrjaSRCM - compact-output null-input exit-status slurp raw-output join-output ascii-output sort-keys raw-input
    color-output monochrome-output tab indent arg argjson slurpfile rawfile args jsonargs stream seq raw-output0
# digests, codes and dumps
md5sum,sha1sum,sha224sum,sha256sum,sha384sum,sha512sum bctwz - binary check text tag zero ignore-missing quiet status
    strict warn
b2sum bctwz l binary check text tag zero length ignore-missing quiet status strict warn
cksum cz al algorithm check length untagged tag base64 raw zero
sum rs - sysv
base64,base32 di w decode ignore-garbage wrap
od bcdfilosxv AjNStw address-radix skip-bytes read-bytes strings format output-duplicates width
xxd abeEipru cglos
hexdump bcCdovx ns canonical length skip no-squeezing
strings afw net all print-file-name bytes encoding radix
# files
ls aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ ITw all almost-all author escape block-size ignore-backups color directory
    classify file-type format full-time group-directories-first no-group human-readable si hide indicator-style inode
    ignore kibibytes dereference numeric-uid-gid literal quote-name quoting-style reverse recursive size sort time
    time-style width context zero
find* - - -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -empty -newer
    -anewer -cnewer -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -uid -gid -links -inum -samefile -maxdepth
    -mindepth -depth -d -mount -xdev -daystart -follow -prune -quit -print -print0 -printf -ls -true -false -a -and -o
    -or -not -readable -writable -executable -P -L -H -lname -ilname -nouser -nogroup -noleaf -warn -nowarn
stat Lft c dereference file-system format printf terse
du 0abcDhHklLmPsSx Bdt all apparent-size block-size bytes total dereference-args max-depth human-readable inodes null si
    separate-dirs summarize threshold time exclude one-file-system
df ahHiklPT Btx all block-size human-readable inodes output portability print-type total
file bhikLN0rsv FP brief mime mime-type mime-encoding dereference separator print0 no-pad raw
readlink femnqsvz - canonicalize canonicalize-existing canonicalize-missing no-newline zero
realpath emLPqsz - canonicalize-existing canonicalize-missing logical physical quiet strip relative-to relative-base
    zero
basename,dirname any -
cmp bls in print-bytes verbose silent quiet ignore-initial bytes
diff abBcdeEinNpqrstTuwyZ CFIULWxX brief report-identical-files context unified ed rcs side-by-side width left-column
    suppress-common-lines label expand-tabs recursive new-file unidirectional-new-file ignore-case ignore-tab-expansion
    ignore-space-change ignore-all-space ignore-blank-lines text strip-trailing-cr exclude minimal color normal
    no-dereference
cp abdfHlLnpPrRsTuvx St archive no-clobber no-dereference recursive parents preserve update verbose
mv bfnTuv St force no-clobber update verbose
mkdir pv m parents verbose mode
touch acfhm drt date no-create reference time
tar tcxvzjJkOpha fC list create extract get file directory verbose gzip bzip2 xz zstd strip-components exclude to-stdout
    wildcards no-wildcards no-same-owner no-same-permissions sort mtime owner group numeric-owner totals one-top-level
    keep-old-files
gzip cdkflnqtv - stdout decompress keep force list no-name quiet test verbose best fast
gunzip,bunzip2,unxz cdkflqtv - stdout decompress keep force list quiet test verbose
zcat,bzcat,xzcat - -
bzip2 cdkqtvz - stdout decompress keep quiet test verbose compress best fast
xz cdklqtvz T stdout decompress keep list quiet test verbose compress threads
zip jqrvD -
unzip CjlnopqtvZ dx
zipinfo 12hlmstTvz -
# the network: what it may reach is in the request, and what it does with it is on the line
curl* fsSLiIgGvO oXHdAmTF fail silent show-error location include head globoff get verbose remote-name output request
    header data data-raw data-binary data-urlencode json user-agent max-time connect-timeout retry retry-delay
    upload-file form compressed fail-with-body url write-out
# the rest
date* uR dIrf date utc universal iso-8601 rfc-3339 rfc-email reference file
seq w fs format separator equal-width
expr,true,false,sleep,pwd,uname,nproc,printenv any -
test* any -
"""


def _rows() -> Iterator[tuple[str, DataTool]]:
    for row in re.findall(r"^[a-z].*(?:\n .*)*", _TABLE, re.MULTILINE):
        names, flags, values, *options = row.split()
        whole = frozenset(word for word in options if word.startswith("-"))
        tool = DataTool(
            "" if flags == "any" else flags.strip("-"),
            values.strip("-"),
            longs=frozenset(options) - whole,
            whole=whole,
            any_words=flags == "any",
            text=names.endswith("*"),
        )
        yield from ((name, tool) for name in names.strip("*").split(","))


TOOLS: Final[Mapping[str, DataTool]] = dict(_rows())


def tool_of(program: str) -> str | None:
    """The name of the data tool that a program is: a bare name, or one in the image's usual folders. Or None."""
    folder, slash, name = program.rpartition("/")
    return name if name in TOOLS and folder + slash in _FOLDERS else None


def why_opaque(argv: Sequence[str]) -> str:
    """What makes a command line more than a data tool with harmless options; '' when nothing does."""
    name = tool_of(argv[0])
    if name is None:
        return f"{argv[0].rsplit('/', 1)[-1][:40]} is not a data tool"
    tool = TOOLS[name]
    # The first word of tar holds options even without a dash.
    if name == "tar" and not set("".join(argv[1:2])) <= {"-", *tool.flags, *tool.values} and argv[1][:1] != "-":
        return "tar has letters that are not harmless options"
    for word in argv[1:]:
        if word.startswith("-") and not tool.knows(word):
            return f"{name} has the option {word.partition('=')[0][:24]}"
        if (name == "jq" and _MODULES.search(word)) or (name == "tar" and _ARCHIVE_HOST in word):
            return f"{name} may load or start more than its words show"
    return ""
