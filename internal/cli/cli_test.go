package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/alecthomas/kong"

	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"
	"keyfold/internal/version"
)

// asProgram makes the test binary be the program of the tests, for a shell.
const asProgram = "KEYFOLD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(runShop(os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr}))
	}
	os.Exit(m.Run())
}

// shop is a small program with each kind of flag and argument.
type shop struct {
	Options  Options         `embed:""`
	Settings settings.Engine `embed:""`

	Open       openCmd       `cmd:"" help:"Open the shop."`
	Goods      goodsCmd      `cmd:"" uses:"batching" help:"Look after goods."`
	Version    VersionCmd    `cmd:"" help:"Print the version."`
	Completion CompletionCmd `cmd:"" help:"Print the script for completion in a shell."`
}

type openCmd struct {
	Door string `placeholder:"NAME" help:"Which door."`
	Log  string `name:"door-log" placeholder:"FILE" help:"Where it is noted."`
}

type goodsCmd struct {
	Import struct {
		File string    `arg:"" help:"What to import."`
		Type EventType `help:"Only these."`
	} `cmd:"" help:"Import goods."`
	Sell struct {
		ID UserID `arg:"" help:"To whom."`
	} `cmd:"" help:"Sell goods."`
}

var errWorked = errors.New("the command ran")

func runShop(args []string, s Streams) int {
	p := Program{Name: "shop", Description: "A shop.", LogLevel: "info", LogFormat: "text"}
	var grammar shop
	return p.Run(&grammar, args, s, func(command *kong.Context) error {
		_, err := grammar.Settings.Config()
		if err := Check(command, struct{}{}, err); err != nil {
			return err
		}
		return errWorked
	})
}

func called(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = runShop(args, Streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

// Without a command, a program and each of its groups print their help, as an error.
func TestNoCommandPrintsHelp(t *testing.T) {
	for args, want := range map[string]string{"": "Usage: shop <command>", "goods": "Usage: shop goods <command>"} {
		code, out, errs := called(t, strings.Fields(args)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, want) || !strings.Contains(errs, "\nCommands:") {
			t.Errorf("shop %s: exit code %d: %s%s", args, code, out, errs)
		}
	}
	if code, _, errs := called(t, "goods", "selll"); code != ExitUsage || !strings.Contains(errs, "sell") || strings.Contains(errs, "Commands:") {
		t.Errorf("a mistyped command: exit code %d: %s", code, errs)
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	for args, want := range map[string]string{"help": "Usage: shop <command>", "help goods sell": "Usage: shop goods sell <id>"} {
		code, out, errs := called(t, strings.Fields(args)...)
		if code != 0 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("shop %s: exit code %d: %s%s", args, code, out, errs)
		}
	}
}

// The version is told whatever else is wrong.
func TestVersion(t *testing.T) {
	t.Setenv("EMBEDDING_DIMENSIONS", "many")
	text, object := "shop "+version.Read().Version+", commit ", `{"version":"`+version.Read().Version+`","commit":"`
	for args, want := range map[string]string{
		"version": text, "--version": text, "open --version": text, "version -o json": object, "--version -o json": object,
	} {
		if code, out, errs := called(t, strings.Fields(args)...); code != 0 || errs != "" || !strings.HasPrefix(out, want) {
			t.Errorf("shop %s: exit code %d: %s%s", args, code, out, errs)
		}
	}
}

// A faulty setting is named by its flag where it was given as one.
func TestFaultsNameTheFlag(t *testing.T) {
	t.Setenv("EMBEDDING_WEIGHT_VIEW", "-1")
	code, _, errs := called(t, "--dimensions=0", "open", "--batch-window=soon")
	if want := `shop: nothing was done:
--batch-window (EMBEDDING_BATCH_WINDOW) is "soon": it must be a number of seconds or a duration such as 1m30s
--dimensions (EMBEDDING_DIMENSIONS) is 0: it must be between 1 and 16384
EMBEDDING_WEIGHT_VIEW is -1: it must be a number from 1e-06 to 1e+06
`; code != ExitUsage || errs != want {
		t.Errorf("exit code %d, got\n%swant\n%s", code, errs, want)
	}
}

// JSON answers, like text, have no character that commands a terminal, and read back as
// they were.
//
// Promise(security/terminals): Characters that command a terminal are in no answer or log: JSON
// escapes them, text replaces or quotes them.
func TestAnswersCommandNoTerminal(t *testing.T) {
	const id = "\u009b31m \u007f \u202e \u2066 \U000e0041 naïve 🙂"
	var out strings.Builder
	c := Console{Streams{Stdout: &out}, true}
	must.OK(t, errors.Join(c.Emit(map[string]any{"id": id, "raw": json.RawMessage(`["` + id + `"]`)}, nil), c.Encoder().Encode(id)))
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U passes in %q", r, out.String())
		}
	}
	var answer struct {
		ID  string
		Raw []string
	}
	if err := json.NewDecoder(strings.NewReader(out.String())).Decode(&answer); err != nil || answer.ID != id || answer.Raw[0] != id {
		t.Errorf("read back it is %+v, %v", answer, err)
	}
}
