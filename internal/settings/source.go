package settings

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Where the value of a setting comes from.
const (
	FromDefault     = "default"
	FromEnvironment = "environment"
	FromFlag        = "flag"
)

// Setting is a setting in force.
type Setting struct {
	Variable string `json:"variable"`
	Flag     string `json:"flag"`
	Value    string `json:"value"` // without secrets
	Source   string `json:"source"`
}

// List returns the settings of all commands of a program, as given to one command.
func List(command *kong.Context) []Setting {
	var all []Setting
	eachVariable(command, func(flag *kong.Flag, name string) {
		if slices.ContainsFunc(all, func(s Setting) bool { return s.Variable == name }) {
			return // several commands have it
		}
		s := Setting{Variable: name, Flag: "--" + flag.Name, Value: current(flag), Source: FromDefault}
		if _, ok := os.LookupEnv(name); ok {
			s.Source = FromEnvironment
		}
		if GivenFlag(command, name) != "" {
			s.Source = FromFlag
		}
		if s.Value = Redact(s.Value); s.Value != "" && flag.Tag.Has("secret") {
			s.Value = hidden
		}
		all = append(all, s)
	})
	return all
}

// GivenFlag returns the flag that a setting was given with, such as --batch-window,
// or "".
func GivenFlag(command *kong.Context, variable string) string {
	for _, p := range command.Path {
		if p.Flag != nil && !p.Resolved && slices.Contains(p.Flag.Envs, variable) {
			return "--" + p.Flag.Name
		}
	}
	return ""
}

// eachVariable calls do with every flag that a variable can set, those of the command
// that was called first.
func eachVariable(command *kong.Context, do func(flag *kong.Flag, name string)) {
	visit := func(flags []*kong.Flag) {
		for _, flag := range flags {
			for _, name := range flag.Envs {
				do(flag, name)
			}
		}
	}
	visit(command.Flags())
	for _, command := range command.Model.Leaves(false) {
		visit(command.Flags)
	}
}

// current returns the text of a setting as it was given, or its default.
func current(flag *kong.Flag) string {
	if v, ok := flag.Target.Addr().Interface().(setting); ok {
		if text := v.input(); text != "" {
			return text
		}
		return flag.Default
	}
	if list, ok := flag.Target.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(reflect.Indirect(flag.Target).Interface())
}

const hidden = "***"

// secret matches a parameter of an address that may hold a secret.
var secret = regexp.MustCompile(`(?i)pass|secret|token|key`)

// keyword matches a password given as password=secret, or in single quotes.
var keyword = regexp.MustCompile(`(?i)(\w*pass\w*\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)`)

// Redact hides what may be a secret in an address: the password and parameters. It
// relies on the form of an address as little as it can, since a password may hold any
// character.
func Redact(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if ok {
		scheme += "://"
	} else {
		scheme, rest = "", text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if user, _, ok := strings.Cut(rest[:at], ":"); ok {
			rest = user + ":" + hidden + rest[at:]
		}
	}
	if address, query, ok := strings.Cut(rest, "?"); ok {
		parameters := strings.Split(query, "&")
		for i, p := range parameters {
			name, _, _ := strings.Cut(p, "=")
			if secret.MatchString(p) {
				parameters[i] = name + "=" + hidden
			}
		}
		rest = address + "?" + strings.Join(parameters, "&")
	}
	return scheme + keyword.ReplaceAllString(rest, "${1}"+hidden)
}
