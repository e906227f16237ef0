package deploy_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

var update = flag.Bool("update", false, "write docs/METRICS.md anew")

// family is one that the code registers.
type family struct {
	name, kind, help, room string
	labels                 []string
}

// kinds are the methods of the registry, with the place of the help and the family's type.
var kinds = map[string]struct {
	help int
	kind string
}{
	"Counter": {1, "counter"}, "Counters": {2, "counter"}, "Gauge": {1, "gauge"}, "Histogram": {1, "histogram"},
}

// families returns what product code registers, by name. A family that several packages
// register has one help text, else it is a fault.
func families(t *testing.T) map[string]*family {
	t.Helper()
	all := map[string]*family{}
	for _, room := range []string{"engine", "shard", "source", "sink", "service", "internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, _ fs.DirEntry, err error) error {
			if filepath.Base(path) == "testserver" {
				return fs.SkipDir
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			in, _ := filepath.Rel("..", filepath.Dir(path))
			for _, f := range registrations(file) {
				f.room = in
				join(t, all, f)
			}
			return nil
		})
		must.OK(t, err)
	}
	return all
}

// join adds a registration to its family.
func join(t *testing.T, all map[string]*family, f family) {
	t.Helper()
	was := all[f.name]
	if was == nil {
		all[f.name] = &f
		return
	}
	if f.kind != was.kind || f.help != "" && was.help != "" && f.help != was.help {
		t.Errorf("%s is registered as a %s %q and as a %s %q", f.name, was.kind, was.help, f.kind, f.help)
	}
	was.help = cmp.Or(was.help, f.help)
	if !strings.Contains(was.room, f.room) {
		was.room += ", " + f.room
	}
	for _, label := range f.labels {
		if !slices.Contains(was.labels, label) {
			was.labels = append(was.labels, label)
		}
	}
}

// registrations returns the calls of a file that register a family, and its lists of
// gauges.
func registrations(file *ast.File) (found []family) {
	for _, decl := range file.Decls {
		found = append(found, registered(decl)...)
	}
	return found
}

func registered(decl ast.Decl) (found []family) {
	texts := constants(decl)
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || kinds[method.Sel.Name].kind == "" || len(n.Args) <= kinds[method.Sel.Name].help {
				return true
			}
			k := kinds[method.Sel.Name]
			series := text(n.Args[0], texts)
			if f := familyOf(series); f.name != "" {
				f.kind, f.help = k.kind, text(n.Args[k.help], texts)
				if method.Sel.Name == "Counters" {
					f.labels = append(f.labels, text(n.Args[1], texts))
				}
				found = append(found, f)
			}
		case *ast.CompositeLit: // {"keyfold_outbox_unsent", "What it is."}
			if len(n.Elts) != 2 {
				return true
			}
			if name, help := text(n.Elts[0], nil), text(n.Elts[1], nil); strings.HasPrefix(name, "keyfold_") && strings.Contains(help, " ") {
				found = append(found, family{name: name, kind: "gauge", help: help})
			}
		}
		return true
	})
	return found
}

var (
	seriesName  = regexp.MustCompile(`^(keyfold_\w+|events_\w+|messages_\w+|worker_\w+|embedding_\w+)(.*)$`)
	seriesLabel = regexp.MustCompile(`(\w+)=`)
)

func familyOf(series string) (f family) {
	if m := seriesName.FindStringSubmatch(series); m != nil {
		f.name = m[1]
		for _, label := range seriesLabel.FindAllStringSubmatch(m[2], -1) {
			f.labels = append(f.labels, label[1])
		}
	}
	return f
}

// constants returns the texts of a function's constants.
func constants(decl ast.Decl) map[string]string {
	texts := map[string]string{}
	ast.Inspect(decl, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					texts[name.Name] = text(spec.Values[i], nil)
				}
			}
		}
		return true
	})
	return texts
}

// text returns the text of an expression as far as it is one: the format of Sprintf, the
// first part of a sum, and the name and label of a call that makes a series.
func text(e ast.Expr, known map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, _ := strconv.Unquote(e.Value)
			return s
		}
	case *ast.Ident:
		return known[e.Name]
	case *ast.BinaryExpr:
		return text(e.X, known)
	case *ast.CallExpr:
		if len(e.Args) == 0 {
			return ""
		}
		name := text(e.Args[0], known)
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "series" {
			return name + "{" + text(e.Args[1], known) + "="
		}
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "labelled" {
			return name + "{dependency="
		}
		return name
	}
	return ""
}

const metricsHead = `# Metrics

Made from the code: ` + "`go test ./deploy -run TestMetricsPage -update`" + ` writes this page, and a test compares it.

` + "`/metrics`" + ` on ADMIN_ADDR is in Prometheus's text format, with the help and the type of each family. Units are
seconds and bytes; histograms have ` + "`le`" + ` buckets; no label holds the id of a user, an event or a product. A family with
several sources may have one more label: ` + "`queue`" + ` in ` + "`keyfold notify work`" + ` and ` + "`keyfold partition`" + `, ` + "`publisher`" + ` in
` + "`keyfold notify work`" + `. The process's own families (` + "`go_*`, `process_*`" + `) are those of VictoriaMetrics' library.

**Every delivery is accounted for.** On each page, for each queue:

    keyfold_rabbitmq_delivered_total = sum(keyfold_events_total) + keyfold_rabbitmq_returned_total + keyfold_rabbitmq_in_hand

` + "`keyfold_events_total`" + ` counts deliveries: an event that is retried twice and then folded is two ` + "`retried`" + ` and one
` + "`folded`" + `. ` + "`keyfold_retried_events_total` and `keyfold_dead_letters_total`" + ` count events, ` + "`keyfold_retries_total`" + ` attempts.
A process that is killed takes its counters along, and its unsettled deliveries are received again.

**The specification's names** stand beside keyfold's: ` + "`events_published_total`, `messages_processed_total`,\n`messages_failed_total`, `embedding_update_duration_seconds`, `worker_instances_active`" + `. The depths of the queues are
RabbitMQ's own, of its plugin rabbitmq_prometheus on /metrics/per-object:
` + "`rabbitmq_queue_messages{queue=\"user_embedding_updates\"}` and `rabbitmq_queue_messages{queue=\"user_embedding_updates_failed\"}`" + `.

**Workers at the broker**: a worker has many consumers, but one connection with the name ` + "`keyfold worker consumer HOST:PID VERSION`" + `
(` + "`keyfold notify worker consumer`" + ` three: urgent notifications, others, delivery reports). ` + "`rabbitmqctl -q list_connections\nclient_properties | grep -c 'keyfold worker consumer'`" + ` counts the workers; RabbitMQ's management shows the name too.
`

// toldBy names the programs on whose pages some families are.
type toldBy struct {
	families *regexp.Regexp // of their package and name
	programs string
}

// programs are those on whose pages a family is: the first row that matches the family's
// package and name counts. TestAlertsReadWhatProgramsTell compares the programs' own pages with it.
var programs = []toldBy{
	{regexp.MustCompile(`^(cmd/keyfold/app|internal/version) `), "Every program"},
	{regexp.MustCompile(` keyfold_rabbitmq_publisher_blocked$`), "Every program but `keyfold serve` and `keyfold ingest` without `--relay`"},
	{regexp.MustCompile(`^engine/breaker `), "`keyfold work`, `keyfold notify work`, `keyfold notify serve`"},
	{regexp.MustCompile(`^service/daemon | worker_instances_active$| keyfold_retries_(delayed|in_process|publish|unconfirmed)`), "`keyfold work`, `keyfold notify work`"},
	{regexp.MustCompile(`^source/rabbit/consume `), "`keyfold work`, `keyfold notify work`, `keyfold partition`"},
	{regexp.MustCompile(`^(engine/profile/processor|service/profile/(worker|pipeline)|source/rabbit/partition|source/stream/reader|source/vector.*) `), "`keyfold work`"},
	{regexp.MustCompile(`^service/profile/partitioner `), "`keyfold partition`"},
	{regexp.MustCompile(` keyfold_outbox_(unsent|failed|oldest_unsent_seconds|backfill)$`), "`keyfold relay`, `keyfold ingest`"},
	{regexp.MustCompile(`^source/ingest | keyfold_outbox_store_`), "`keyfold ingest`"},
	{regexp.MustCompile(` events_published_total$`), "`keyfold relay`, `keyfold ingest --relay`, `keyfold notify serve`"},
	{regexp.MustCompile(`^(source|cmd/keyfold)/outbox `), "`keyfold relay`, `keyfold ingest --relay`"},
	{regexp.MustCompile(`^source/httpapi `), "`keyfold ingest`, `keyfold serve`, `keyfold notify serve`"},
	{regexp.MustCompile(`^service/profile/(api|recommend) `), "`keyfold serve`"},
	{regexp.MustCompile(`^service/notify/published `), "`keyfold notify work`, `keyfold notify serve`"},
	{regexp.MustCompile(`^(service/notify/api|source/repeat) `), "`keyfold notify serve`"},
	{regexp.MustCompile(`^(engine/notify/processor|service/notify/(notifier|score)|sink/ledger/.*) `), "`keyfold notify work`"},
}

// The page lists every family of the code.
func TestMetricsPage(t *testing.T) {
	all := families(t)
	if len(all) < 80 {
		t.Errorf("only %d families are found", len(all))
	}
	var b strings.Builder
	b.WriteString(metricsHead)
	sections := make([][]*family, len(programs))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		if f.help == "" || !strings.HasSuffix(f.help, ".") {
			t.Errorf("%s has the help %q, which is no sentence", name, f.help)
		}
		at := slices.IndexFunc(programs, func(p toldBy) bool { return p.families.MatchString(f.room + " " + f.name) })
		if at < 0 {
			t.Errorf("programs has no row for %s of %s", f.name, f.room)
			continue
		}
		sections[at] = append(sections[at], f)
	}
	for at, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | help |\n|---|---|---|\n", programs[at].programs)
		for _, f := range section {
			labels := ""
			if len(f.labels) > 0 {
				labels = "{" + strings.Join(f.labels, ",") + "}"
			}
			fmt.Fprintf(&b, "| `%s%s` | %s | %s |\n", f.name, labels, f.kind, strings.ReplaceAll(f.help, "|", "\\|"))
		}
	}
	const page = "../docs/METRICS.md"
	if *update {
		must.OK(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}
	if is, err := os.ReadFile(page); err != nil || string(is) != b.String() {
		t.Errorf("docs/METRICS.md is not what the code says (%v): go test ./deploy -run TestMetricsPage -update", err)
	}
}
