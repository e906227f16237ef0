package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/redistest"
	"keyfold/internal/testserver/sqltest"

	"keyfold/source/vector/openai"
)

// guarded are servers that want passwords, each a canary, and the settings with them.
type guarded struct {
	kinds map[string]string
	env   map[string]string
	api   *embedtest.Server
	spans *spanSink
}

// spanSink is a collector that keeps what it is sent.
type spanSink struct{ sent logtest.Buffer }

func (s *spanSink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(&s.sent, r.Body) // what breaks off is searched too
}

// password returns the right one of a setting.
func (g *guarded) password(name string) string {
	number := canaryNumber(g.kinds, name)
	return number + "a/:@%?#" + number + "b"
}

// token returns a secret without such characters.
func (g *guarded) token(name string) string {
	number := canaryNumber(g.kinds, name)
	return number + "a-" + number + "b-0123456789"
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{spans: &spanSink{}}
	g.kinds, _ = secretSettings(t)
	collector := httptest.NewServer(g.spans)
	t.Cleanup(collector.Close)
	g.env = map[string]string{
		"ADMIN_ADDR": "127.0.0.1:0", "HTTP_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug", "EMBEDDING_DIMENSIONS": fmt.Sprint(dimensions),
		"EMBEDDING_BATCH_WINDOW": "0.1", "WORKER_RETRY_DELAY": "20ms", "WORKER_MAX_RETRIES": "1", "NOTIFY_AI": "on", "STATUS_PROCESSES": "127.0.0.1:1", "RABBITMQ_PARTITIONS": "2", "WORKER_PARTITIONS": "0-1",
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=" + canary + "90", "OTEL_BSP_SCHEDULE_DELAY": "50",
	}
	for name, kind := range g.kinds {
		switch kind {
		case secretValue:
			g.env[name] = g.token(name)
		case secretAddress: // of a server that these tests do not have
			g.env[name] = g.at("http://127.0.0.1:1/", name)
		}
	}
	g.env["NOTIFY_LINK_URL"], g.env["NOTIFY_LINK_KEY_FILE"] = "https://shop.example/n", filepath.Join(t.TempDir(), "key")
	write(t, g.env["NOTIFY_LINK_KEY_FILE"], g.token("NOTIFY_LINK_KEY_FILE")+"-0123456789\n")
	g.servers(t)
	return g
}

// at returns an address with the password of a setting.
func (g *guarded) at(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword("canary", g.password(name))
	return u.String()
}

// servers starts servers, and has them know the passwords.
func (g *guarded) servers(t *testing.T) {
	t.Helper()
	broker, maria, postgres := rabbittest.Shared(t), sqltest.Shared(t), pgtest.Shared(t)
	vhost := broker.VHost(t)
	broker.AddUser(t, "canary", g.password("RABBITMQ_DSN"))
	broker.Permit(t, vhost, "canary", ".*", ".*", ".*")
	g.env["RABBITMQ_DSN"] = g.at(broker.DSN(vhost), "RABBITMQ_DSN")
	g.env["RABBITMQ_MANAGEMENT_URL"] = g.at(broker.ManagementURL(), "RABBITMQ_MANAGEMENT_URL") // refuses it

	store := mongotest.Start(t, mongotest.WithUser("canary", g.password("MONGODB_URI")))
	g.env["MONGODB_URI"] = g.at(store.URI(), "MONGODB_URI")

	maria.Exec(t, "CREATE OR REPLACE USER canary IDENTIFIED BY '"+g.password("DATABASE_URL")+"'")
	maria.Exec(t, "GRANT ALL ON *.* TO canary")
	g.env["DATABASE_URL"] = g.at(maria.URL(maria.Database(t)), "DATABASE_URL")

	postgres.Exec(t, "DO $$BEGIN CREATE ROLE canary SUPERUSER LOGIN PASSWORD '"+g.password("NOTIFY_DATABASE_URL")+"'; EXCEPTION WHEN duplicate_object THEN NULL; END$$")
	ledger := postgres.URL(postgres.Database(t, ""))
	for _, name := range []string{"NOTIFY_DATABASE_URL", "NOTIFY_ADMIN_URL"} {
		g.env[name] = g.at(ledger, name)
	}
	for _, name := range []string{"REDIS_URL", "NOTIFY_REDIS_URL"} {
		g.env[name] = g.at(redistest.Start(t, "--requirepass", g.password(name)).URL(), name)
		g.env[name] = strings.Replace(g.env[name], "canary:", ":", 1)
	}
	g.api = embedtest.Start(t, embedtest.Config{Dimensions: dimensions, Model: openai.DefaultModel, Key: g.token("OPENAI_API_KEY"), Seed: 7})
	g.env["OPENAI_BASE_URL"] = g.api.URL()
}

// setUp runs both setups.
func (g *guarded) setUp(t *testing.T) {
	t.Helper()
	for _, name := range []string{"setup", "notify setup"} {
		code, out, errs := call(t, g.env, strings.Fields(name)...)
		noCanary(t, name, out+errs)
		if code != 0 {
			t.Fatalf("%s: %s", name, errs)
		}
	}
}

// services are the commands that run until they are told to stop.
var services = [][]string{{"work"}, {"ingest"}, {"relay"}, {"partition"}, {"notify", "work"}, {"notify", "serve"}}

// start starts all services, by their names, and waits until each has met what is asked for.
func start(t *testing.T, env map[string]string, met func(*daemon) bool) map[string]*daemon {
	t.Helper()
	all := map[string]*daemon{}
	for _, args := range services {
		all[strings.Join(args, " ")] = launch(t, environ(env), args...)
	}
	for name, d := range all {
		eventually(t, name+" has met it", func() error {
			if strings.Contains(d.log.String(), "keyfold: ") || met(d) { // it has ended, or goes on
				return nil
			}
			return errors.New(d.log.String())
		})
	}
	return all
}

var apiURL = regexp.MustCompile(`listening","url":"(http://[^/"]+)`)

// search asks services for all that they answer, also under a wrong token, ends them, and
// searches the answers and the logs, each of whose lines has its component and its hint.
func (g *guarded) search(t *testing.T, what string, all map[string]*daemon) {
	t.Helper()
	for name, d := range all {
		for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/log-level", "/nothing?key=x"} {
			_, body := d.get(path)
			noCanary(t, what+": "+path+" of "+name, body)
		}
		if found := apiURL.FindStringSubmatch(d.log.String()); found != nil {
			for _, token := range []string{"", canary + "91-0123456789", g.token("HTTP_TOKENS")} {
				for _, path := range []string{"/v1/events", "/v1/notifications", "/v1/notifications?x=" + canary[:3], "/openapi.json", "/readyz", "/v1/users/1/preferences"} {
					a, err := send(found[1]+path, token, []byte(`{"user_id":1,"event_type":"search"}`))
					must.OK(t, err)
					noCanary(t, what+": "+path+" of "+name, a.Text)
				}
			}
		}
	}
	for name, d := range all {
		d.stop()
		log := d.log.String()
		noCanary(t, what+": keyfold "+name, log)
		log, _, _ = strings.Cut("\n"+log, "\nkeyfold: ") // why it ended
		for line := range strings.Lines(strings.TrimPrefix(log, "\n")) {
			readLogLine(t, what+": keyfold "+name, line)
		}
	}
	noCanary(t, what+": the spans", g.spans.sent.String())
}

// Programs whose servers want passwords print none of them: while all goes well, and with
// an embedding API that fails and repeats the key.
//
// Promise(security/secrets)
func TestNoSecretOfWorkingPrograms(t *testing.T) {
	g := newGuarded(t)
	g.setUp(t)
	all := start(t, g.env, func(d *daemon) bool {
		code, _ := d.get("/readyz")
		return code == http.StatusOK
	})
	for _, args := range services {
		if name := strings.Join(args, " "); strings.Contains(all[name].log.String(), "keyfold: ") {
			t.Fatalf("%s: %s", name, all[name].log)
		}
	}
	g.post(t, all["ingest"], event(1, profile.Search, "mug", time.Now(), "fine"))
	eventually(t, "it is folded", func() error {
		if n := all["work"].metric("keyfold_profile_writes_total"); n < 1 {
			return errors.New(all["work"].log.String())
		}
		return nil
	})
	runs := runAll(t, "all well", g.env, false, everyCommand)
	for _, status := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusBadRequest, http.StatusTooManyRequests} {
		key := g.token("OPENAI_API_KEY")
		g.api.SetFaults(embedtest.Faults{Status: status, Code: "c", Message: "the key " + key + " of 'Bearer " + strings.ToUpper(key) + "' is refused"})
		mark := fmt.Sprint("status ", status)
		g.post(t, all["ingest"], event(2, profile.Search, mark, time.Now(), mark))
		eventually(t, mark+" is logged", func() error {
			if log := all["work"].log.String(); !strings.Contains(log, fmt.Sprint(" answered ", status)) && !strings.Contains(log, "embedding API down") {
				return errors.New(log)
			}
			return nil
		})
		_, out, errs := call(t, g.env, "embed", "a lamp")
		noCanary(t, mark, out+errs)
		if status != http.StatusTooManyRequests && !strings.Contains(errs, fmt.Sprint("answered ", status)) {
			t.Errorf("%d: %s", status, errs)
		}
	}
	if len(g.spans.sent.String()) == 0 {
		t.Error("no spans were sent")
	}
	g.search(t, "all well", all)
	t.Logf("%d runs of commands", runs)
}

// post posts an event to the API, with the right token.
func (g *guarded) post(t *testing.T, ingest *daemon, body []byte) {
	t.Helper()
	a, err := send(ingest.url(), g.token("HTTP_TOKENS"), body)
	must.OK(t, err)
	if a.Code != http.StatusAccepted {
		t.Fatalf("%d %s", a.Code, a.Text)
	}
	noCanary(t, "the answer", a.Text)
}

// environ returns variables as a process takes them.
func environ(env map[string]string) (all []string) {
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return all
}

// Programs whose passwords are wrong, and those whose servers are away, print none of them.
//
// Promise(security/secrets)
func TestNoSecretOfFailingPrograms(t *testing.T) {
	g := newGuarded(t)
	wrong, away := maps.Clone(g.env), maps.Clone(g.env)
	for name, kind := range g.kinds {
		switch u, err := url.Parse(g.env[name]); {
		case kind == secretValue && name != "HTTP_TOKENS":
			wrong[name] = g.token(name) + "c"
		case kind == secretAddress && err == nil && u.User != nil:
			password, _ := u.User.Password()
			u.User = url.UserPassword(u.User.Username()+"x", password+"c")
			if strings.HasPrefix(u.Scheme, "redis") {
				u.User = url.UserPassword("", password+"c")
			}
			wrong[name] = u.String()
			u.Host = "127.0.0.1:1"
			if name == "MONGODB_URI" {
				u.RawQuery = "serverSelectionTimeoutMS=100"
			}
			away[name] = u.String()
		}
	}
	delete(away, "OPENAI_API_KEY")
	away["OPENAI_API_KEY_FILE"] = filepath.Join(t.TempDir(), "key")
	write(t, away["OPENAI_API_KEY_FILE"], g.token("OPENAI_API_KEY")+"\n")
	away["OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
	away["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://user:" + canary + "92@127.0.0.1:1"
	for i, mode := range []struct {
		name string
		env  map[string]string
	}{{"wrong passwords", wrong}, {"servers away", away}} {
		each := 0
		chosen := func(command string) bool { // the short form has every second one, and the others in the other mode
			each++
			return long || each%2 == i || slices.Contains(judgesOfAll, command)
		}
		all := start(t, mode.env, func(d *daemon) bool {
			return slices.ContainsFunc([]string{`"WARN"`, `"ERROR"`}, func(level string) bool { return strings.Contains(d.log.String(), level) })
		})
		g.search(t, mode.name, all)
		t.Logf("%s: %d runs of commands", mode.name, runAll(t, mode.name, mode.env, mode.name == "servers away", chosen))
	}
	for i, endpoint := range []string{"http://user:" + canary + "93a%zz" + canary + "b@127.0.0.1:4318", "http://user:" + canary + "94a b@127.0.0.1:4318/"} {
		if i > 0 && !long {
			continue
		}
		away["OTEL_EXPORTER_OTLP_ENDPOINT"], away["OTEL_EXPORTER_OTLP_HEADERS"] = endpoint, "no "+canary+"97,authorization=%zz"+canary+"98"
		g.search(t, "unreadable settings of traces", start(t, away, func(d *daemon) bool { return strings.Contains(d.log.String(), `"ERROR"`) }))
	}
}

// A file of tokens that is made faulty while a program runs is told of without them.
//
// Promise(security/secrets)
func TestNoSecretOfReloadedTokens(t *testing.T) {
	g := newGuarded(t)
	file := filepath.Join(t.TempDir(), "tokens")
	write(t, file, g.token("HTTP_TOKENS")+"\n")
	g.setUp(t)
	delete(g.env, "HTTP_TOKENS")
	g.env["HTTP_TOKEN_FILE"] = file
	d := launch(t, environ(g.env), "notify", "serve")
	base := ""
	eventually(t, "it listens", func() error {
		if found := apiURL.FindStringSubmatch(d.log.String()); found != nil {
			base = found[1]
			return nil
		}
		return errors.New(d.log.String())
	})
	write(t, file, canary+"95\n"+g.token("HTTP_TOKENS")+" "+canary+"96\n")
	eventually(t, "the fault is logged", func() error {
		if _, err := send(base+"/v1/notifications", g.token("HTTP_TOKENS"), []byte("{}")); err != nil {
			return err
		}
		if !strings.Contains(d.log.String(), "are at fault") {
			return errors.New(d.log.String())
		}
		return nil
	})
	g.search(t, "a faulty file", map[string]*daemon{"notify serve": d})
}
