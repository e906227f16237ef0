package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

func TestCandidates(t *testing.T) {
	for _, c := range []struct{ line, want string }{ // what the last word may become
		{"", "open goods version completion"},
		{"g", "goods"},
		{"goods ", "import sell"},
		{"goods sell ", ""},
		{"goods import ", ":files"},
		{"goods import a ", ""},
		{"goods import a --ty", "--type"},
		{"goods import --type product_v", "product_view"},
		{"--log-level debug goods i", "import"},
		{"-o json goods i", "import"},
		{"open --door-log ", ":files"},
		{"open --door ", ""},
		{"goods --batch-w", "--batch-window"},
		{"open --batch-w", ""}, // open does not use it
		{"completion ", "bash zsh fish"},
		{"--output j", "json"},
		{"unknown ", "open goods version completion"},
		{"--output=j", "--output=json"},
		{"open --door-log=x", ":files"},
		{"--output = j", "json"}, // as bash splits it
		{"--output =", "text json"},
		{"--nothing=", ""},
	} {
		_, out, errs := called(t, append([]string{completeArg}, strings.Split(c.line, " ")...)...)
		var words []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			words = append(words, word)
		}
		if got := strings.Join(words, " "); got != c.want || errs != "" {
			t.Errorf("%q: got %q, want %q%s", c.line, got, c.want, errs)
		}
	}
	if _, out, _ := called(t, completeArg, "op"); out != "open\tOpen the shop.\n" {
		t.Errorf("got %q, want the word and its meaning", out)
	}
}

// The shop's own event types are completed too.
func TestCandidatesOfTheShopsTypes(t *testing.T) {
	t.Setenv("EVENT_TYPES", "completed_wish=0.6")
	if _, out, errs := called(t, completeArg, "goods", "import", "--type", "completed_"); out != "completed_wish\t\n" || errs != "" {
		t.Errorf("got %q%s", out, errs)
	}
}

// Bash runs the script and offers the same words.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	must.OK(t, err)
	folder := t.TempDir()
	for _, name := range []string{"a file", "another"} {
		must.OK(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	_, script, _ := called(t, "completion", "bash")
	script += `
shop() { ` + asProgram + `=1 "$PROGRAM" "$@"; }
complete -p shop
IFS=
while read -r line; do
    IFS=' '; COMP_WORDS=($line); [[ $line == *' ' ]] && COMP_WORDS+=(''); IFS=
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _shop
    (IFS=$'\n'; sort <<<"${COMPREPLY[*]}" | paste -sd' ') # bash itself sorts what it shows
done
`
	var in, want strings.Builder
	want.WriteString("complete -F _shop shop\n")
	for _, c := range []struct{ line, want string }{
		{"g", "goods"}, {"goods ", "import sell"}, {"goods import ", completeFiles}, {"goods sell ", ""}, {"--output = j", "json"},
	} {
		in.WriteString("shop " + c.line + "\n")
		want.WriteString(strings.ReplaceAll(c.want, completeFiles, "a file another") + "\n")
	}
	run := exec.Command(bash, "--norc", "-c", script)
	run.Dir, run.Stdin, run.Env = folder, strings.NewReader(in.String()), append(os.Environ(), "PROGRAM="+os.Args[0])
	out, err := run.CombinedOutput()
	if err != nil || string(out) != want.String() {
		t.Errorf("%v, got\n%swant\n%s", err, out, want.String())
	}
}

// Each script defines its function and has the shell use it for the program, and
// nothing of the template is left.
func TestScripts(t *testing.T) {
	for shell, wanted := range map[string][]string{
		"bash": {"_shop() {", "complete -F _shop shop\n", "${COMP_WORDS[0]}\" __complete"},
		"zsh":  {"#compdef shop\n", "_shop() {", "compdef _shop shop\n", "${words[1]} __complete"},
		"fish": {"function _shop\n", "complete -c shop -f -a '(_shop)'\n", "$words[1] __complete"},
	} {
		code, script, errs := called(t, "completion", shell)
		for _, want := range wanted {
			if !strings.Contains(script, want) {
				t.Errorf("%s: %q is missing in\n%s", shell, want, script)
			}
		}
		if code != 0 || errs != "" || strings.Contains(script, "PROGRAM") || strings.Contains(script, "FUNCTION") {
			t.Errorf("%s: exit code %d, %s\n%s", shell, code, errs, script)
		}
		if path, err := exec.LookPath(shell); err == nil {
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(script)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s refuses the script: %v\n%s", shell, err, out)
			}
		}
	}
	if code, _, errs := called(t, "completion", "tcsh"); code != ExitUsage || !strings.Contains(errs, "fish") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
