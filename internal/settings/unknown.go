package settings

import (
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"keyfold/engine"
)

// Warning is about a setting that does not do what it seems to do.
type Warning struct{ Variable, Text, Hint string }

// owned are the prefixes that no other program's variables have.
var owned = []string{"EMBEDDING_", "WORKER_"}

// elsewhere are settings with these prefixes that only one of the programs has: both
// may read one file of variables.
var elsewhere = []string{"EMBEDDING_FORMAT", "EMBEDDING_MODEL", "EMBEDDING_CACHE_TTL", "EMBEDDING_FOLD_CASE", "WORKER_PARTITIONS"}

// Unknown warns of variables that look like a setting of the program and are none.
// environ is as [os.Environ] returns it.
func Unknown(command *kong.Context, environ []string) (warnings []Warning) {
	known := declared(command.Model.Target.Type())
	set := make([]string, 0, len(environ))
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		set = append(set, name)
	}
	slices.Sort(set)
	for _, name := range set {
		if slices.Contains(known, name) || slices.Contains(elsewhere, name) || ofKubernetes(name) {
			continue
		}
		meant, foreign := meantBy(name, known)
		switch {
		case foreign && (meant == "" || slices.Contains(set, meant)):
		case meant == "":
			warnings = append(warnings, Warning{name, "unknown setting", "`" + command.Model.Name + " help settings` lists the settings"})
		default:
			warnings = append(warnings, Warning{name, "unknown setting", "did you mean " + meant + "?"})
		}
	}
	return warnings
}

// declared returns the variables of all commands of a grammar, in its order. The parser may
// know the flags of one command alone.
func declared(grammar reflect.Type) (all []string) {
	for field := range grammar.Fields() {
		if list := field.Tag.Get("env"); list != "" {
			all = append(all, strings.Split(list, ",")...)
		}
		_, embedded := field.Tag.Lookup("embed")
		if _, command := field.Tag.Lookup("cmd"); command || embedded || field.Anonymous {
			all = append(all, declared(field.Type)...)
		}
	}
	return all
}

// meantBy returns the setting that a name resembles, "" where there is none, and
// whether the name may be another program's. Such a name has to be closer.
func meantBy(name string, known []string) (meant string, foreign bool) {
	for _, prefix := range owned {
		if strings.HasPrefix(name, prefix) {
			return nearest(name, known, 3, true), false
		}
	}
	if bare, ok := strings.CutPrefix(name, "KEYFOLD_"); ok && slices.Contains(known, bare) {
		return bare, true
	}
	return nearest(name, known, 2, false), true
}

// nearest returns the setting with the same words as name or, where some are enough,
// with all of the words that one of the two has. Otherwise it is the one with the
// fewest edits, at most so many, and in a short name at most one.
func nearest(name string, known []string, most int, some bool) string {
	best, fewest := "", most+1
	for _, k := range known {
		n := engine.Edits(name, k, most)
		if within(name, k) && (some || within(k, name)) || some && within(k, name) {
			n = 0
		}
		if len(k) < 10 {
			n *= 2
		}
		if n < fewest || n == fewest && n <= most && len(k) < len(best) {
			best, fewest = k, n
		}
	}
	return best
}

// within reports whether b has all words of a.
func within(a, b string) bool {
	for word := range strings.SplitSeq(a, "_") {
		if !contains(strings.SplitSeq(b, "_"), word) {
			return false
		}
	}
	return true
}

func contains(words iter.Seq[string], wanted string) bool {
	for word := range words {
		if word == wanted {
			return true
		}
	}
	return false
}

// ofKubernetes reports whether a name has the form of those that Kubernetes sets for
// its services, one of which may be called worker or embedding.
func ofKubernetes(name string) bool {
	return strings.Contains(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}
