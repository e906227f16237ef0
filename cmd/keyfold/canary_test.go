package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/sourcegraph/conc/pool"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
)

// canary stands in every secret of these tests, with the number of its setting, and twice
// in a password: on both sides of a character that parsers of addresses stumble over.
const canary = "kanari"

// canaryForms are the spellings of the canary that no output may have: itself, in any
// case, hex, and base64 wherever it begins.
var canaryForms = func() []string {
	forms := []string{canary, hex.EncodeToString([]byte(canary))}
	for before := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte("xx"[:before] + canary))
		forms = append(forms, strings.ToLower(coded[(before*8+5)/6:(before+len(canary))*8/6]))
	}
	return forms
}()

// noCanary searches an output.
func noCanary(t *testing.T, of, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for _, form := range canaryForms {
		if i := strings.Index(lower, form); i >= 0 {
			t.Errorf("%s shows a secret:\n%s", of, text[max(0, i-300):min(len(text), i+200)])
			return
		}
	}
}

// A secret setting is one of three.
const (
	secretValue   = "value"   // the whole value
	secretAddress = "address" // a part of it
	secretFile    = "file"    // what the file holds that it names
)

// harmless are settings whose names look as if they held a secret.
var harmless = []string{"NOTIFY_KEY_RETENTION"}

var (
	addressName = regexp.MustCompile(`(URL|URI|DSN)$`)
	secretName  = regexp.MustCompile(`KEY|TOKEN|PASS|SECRET|CREDENTIAL|AUTH`)
	schemeOf    = regexp.MustCompile(`(\w+)://`)
)

// secretSettings returns the settings that hold a secret, as the grammar has them. A new
// setting whose name looks like one has to be marked as one, or listed as harmless.
func secretSettings(t *testing.T) (kinds map[string]string, flags map[string]*kong.Flag) {
	t.Helper()
	parser, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
	kinds, flags = map[string]string{}, map[string]*kong.Flag{}
	all := parser.Model.Flags
	for _, n := range parser.Model.Leaves(false) {
		all = append(slices.Clone(all), n.Flags...)
	}
	for _, flag := range all {
		for _, name := range flag.Envs {
			switch isFile := flag.PlaceHolder == "FILE"; {
			case flag.Tag.Has("secret"):
				kinds[name] = secretValue
			case addressName.MatchString(name) || strings.Contains(flag.Help+flag.Default, "://"):
				kinds[name] = secretAddress
			case isFile && secretName.MatchString(name):
				kinds[name] = secretFile
			case secretName.MatchString(name) && !slices.Contains(harmless, name):
				t.Errorf("%s may hold a secret: mark it with secret:\"\", or add it to the harmless ones", name)
				continue
			default:
				continue
			}
			flags[name] = flag
		}
	}
	return kinds, flags
}

// canaryNumber returns the canary of a setting.
func canaryNumber(kinds map[string]string, name string) string {
	names := make([]string, 0, len(kinds))
	for n := range kinds {
		names = append(names, n)
	}
	slices.Sort(names)
	return fmt.Sprintf("%s%02d", canary, slices.Index(names, name))
}

// malformed are addresses with a scheme, a password of two parts around what a parser
// stumbles over, and a host.
var malformed = map[string]string{
	"slash": "%[1]s://user:%[2]sa/%[2]sb@%[3]s/name", "escape": "%[1]s://user:%[2]sa%%zz%[2]sb@%[3]s/name",
	"hash": "%[1]s://user:%[2]sa#%[2]sb@%[3]s/name", "question mark": "%[1]s://user:%[2]sa?%[2]sb@%[3]s/name",
	"at": "%[1]s://user:%[2]sa@%[2]sb@%[3]s/name", "space": "%[1]s://user:%[2]sa %[2]sb@%[3]s/name",
	"control": "%[1]s://user:%[2]sa\x7f%[2]sb@%[3]s/name", "line": "%[1]s://user:%[2]sa\n%[2]sb@%[3]s/name",
	"bracket": "%[1]s://user:%[2]sa[%[2]sb@%[3]s/name", "quote": "%[1]s://user:%[2]sa\"'%[2]sb@%[3]s/name",
	"port": "%[1]s://user:%[2]sa%%2F%[2]sb@127.0.0.1:99x/name", "IPv6": "%[1]s://user:%[2]sa%%2F%[2]sb@[::1/name",
	"no scheme": "user:%[2]sa/%[2]sb@%[3]s/name", "scheme": "ftp://user:%[2]sa%%2F%[2]sb@%[3]s/name",
	"one slash": "%[1]s:/user:%[2]sa%%2F%[2]sb@%[3]s/name", "no host": "%[1]s://user:%[2]sa%%2F%[2]sb@/name",
	"words": "host=127.0.0.1 user=user password=%[2]sa'%[2]sb dbname=name", "number": "%[1]s://user:5432/%[2]sb@%[3]s/name",
	"parameters": "%[1]s://%[3]s/name?password=%[2]sa&sentinel_password=%[2]sb&tlsCertificateKeyFilePassword=%[2]sc&authMechanism=PLAIN" +
		"&authMechanismProperties=AWS_SESSION_TOKEN:%[2]sd&sslpassword=%[2]se&token=%[2]sf&api-key=%[2]sg",
	"bad parameters": "%[1]s://user:%[2]sa@%[3]s/name?password=%[2]sb&sslpassword=%[2]sc&sentinel_password=%[2]sd&tlsCertificateKeyFilePassword=%[2]se" +
		"&authMechanismProperties=AWS_SESSION_TOKEN:%[2]sf&sslmode=wrong&tls=wrong&w=wrong&db=wrong&api-key=%[2]sg",
	"escapes of parameters": "%[1]s://user:%[2]sa@%[3]s/name?password=%[2]sb%%zz%[2]sc&sslpassword=%%zz%[2]sd&tlsCertificateKeyFilePassword=%[2]se%%zz&key=%%zz%[2]sf",
	"properties":            "%[1]s://user:%[2]sa@%[3]s/name?authMechanism=PLAIN&authMechanismProperties=%[2]sb&tlsCertificateKeyFile=/nowhere&tlsCertificateKeyFilePassword=%[2]sc",
	"certificates":          "%[1]s://user:%[2]sa@%[3]s/name?tls=true&tlsCertificateKeyFile=/nowhere&tlsCertificateKeyFilePassword=%[2]sc&sslmode=require&sslkey=/nowhere&sslcert=/nowhere&sslpassword=%[2]sd",
	"nothing but it":        "%[2]sa", "path of a file": "sqlite://user:%[2]sa@%[3]s/nowhere/name",
}

// schemes returns the schemes that a setting's address may have.
func schemes(flag *kong.Flag) (all []string) {
	for _, found := range schemeOf.FindAllStringSubmatch(flag.Default+" "+flag.Help, -1) {
		if found[1] != "sqlite" && found[1] != "unix" {
			all = append(all, found[1])
		}
	}
	if len(all) == 0 {
		all = []string{"postgres"} // NOTIFY_ADMIN_URL
	}
	return all
}

// canaryFiles writes files with secrets and returns the settings that name them.
func canaryFiles(t *testing.T, kinds map[string]string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for name, kind := range kinds {
		if kind == secretFile {
			env[name] = filepath.Join(t.TempDir(), "secret")
			write(t, env[name], canaryNumber(kinds, name)+"a-"+canaryNumber(kinds, name)+"b unknown-scope\n-----BEGIN "+canaryNumber(kinds, name)+"c\n")
		}
	}
	return env
}

// Settings that cannot be used are told without their secrets: whatever makes an address
// unreadable, by commands that judge one (in the soak by every command), in text and in JSON, by variables, files and flags.
//
// Promise(security/secrets): Passwords, keys and tokens are in no log, error, metric, answer or span;
// SQLite files are for their owner alone, and only `setup` makes one.
func TestNoSecretOfUnreadableSettings(t *testing.T) {
	kinds, flags := secretSettings(t)
	for _, name := range []string{"RABBITMQ_DSN", "MONGODB_URI", "DATABASE_URL", "REDIS_URL", "NOTIFY_DATABASE_URL", "NOTIFY_ADMIN_URL", "NOTIFY_REDIS_URL", "OPENAI_BASE_URL"} {
		if kinds[name] != secretAddress {
			t.Errorf("%s is not known as an address", name)
		}
	}
	runs := 0
	for i, form := range slices.Sorted(maps.Keys(malformed)) {
		for variant := range 2 {
			if !long && variant != len(form)%2 {
				continue
			}
			env := map[string]string{"ADMIN_ADDR": "127.0.0.1:0", "HTTP_ADDR": "127.0.0.1:0", "EMBEDDER": "openai", "LOG_LEVEL": "debug", "NOTIFY_AI": "on"}
			for name, kind := range kinds {
				switch number := canaryNumber(kinds, name); {
				case kind == secretAddress:
					all := schemes(flags[name])
					env[name] = fmt.Sprintf(malformed[form], all[variant%len(all)], number, "127.0.0.1:1")
				case kind == secretValue && variant == 0:
					env[name] = number + "a\t" + number + "b,é" // neither a header's nor long enough
				}
			}
			if variant == 1 {
				for name, file := range canaryFiles(t, kinds) {
					env[name] = file
				}
			}
			judge := judges[i%len(judges)]
			runs += runAll(t, form, env, variant == 1, func(command string) bool {
				return long || form == "slash" || slices.Contains(judgesOfAll, command) || command == judge
			})
		}
	}
	t.Logf("%d runs, %d settings", runs, len(kinds))
}

// Secrets that are given as flags, beside a mistake of the command line, are not shown.
//
// Promise(security/secrets)
func TestNoSecretOfFlags(t *testing.T) {
	kinds, flags := secretSettings(t)
	for name, flag := range flags {
		secret := canaryNumber(kinds, name) + "a-0123456789"
		if kinds[name] == secretAddress {
			secret = schemes(flag)[0] + "://user:" + secret + "@127.0.0.1:1/name"
		}
		for _, args := range [][]string{
			{"config", "show", "--" + flag.Name, secret},
			{"config", "show", "-o", "json", "--" + flag.Name + "=" + secret},
			{"config", "check", "--" + flag.Name, secret},
			{"work", "--" + flag.Name + "=" + secret, "--nothing"},
			{"worker", "--" + flag.Name + "=" + secret},
			{"work", "--" + flag.Name[1:] + "=" + secret},
			{"work", "--" + flag.Name + "=" + secret, "--help"},
		} {
			if kinds[name] == secretFile {
				continue // the flag has a file's name
			}
			_, out, errs := call(t, map[string]string{"EMBEDDER": "hash"}, args...)
			noCanary(t, strings.Join(args[:len(args)-1], " "), out+errs)
		}
	}
}

// judgesOfAll are commands that judge all addresses.
var judgesOfAll = []string{"config check", "config show", "status"}

// judges are commands that judge all addresses between them: each form has one of them.
var judges = []string{"setup", "work", "ingest", "user forget", "notify setup", "notify work", "notify serve"}

func everyCommand(string) bool { return true }

// runAll runs the chosen commands in this process with these settings, eight at a time as they
// mostly wait, for a moment each, and searches what they print.
func runAll(t *testing.T, form string, env map[string]string, asJSON bool, chosen func(command string) bool) (runs int) {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value)
	}
	defer func() {
		for name := range env {
			os.Unsetenv(name)
		}
	}()
	commands := pool.New().WithMaxGoroutines(8)
	leaves(t, func(command string, node *kong.Node) {
		if !chosen(command) {
			return
		}
		runs++
		args := slices.Concat(strings.Fields(command), strings.Fields(arguments[command]))
		if asJSON {
			args = append(args, "-o", "json")
		}
		if command == "config check" {
			args = append(args, "--connect")
		}
		if slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == "yes" }) {
			args = append(args, "--yes")
		}
		commands.Go(func() {
			out, errs := &logtest.Buffer{}, &logtest.Buffer{}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			run(ctx, args, cli.Streams{Stdin: strings.NewReader(""), Stdout: out, Stderr: errs})
			noCanary(t, fmt.Sprintf("%s: keyfold %s", form, strings.Join(args, " ")), out.String()+errs.String())
		})
	})
	commands.Wait()
	return runs
}
