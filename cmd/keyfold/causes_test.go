package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"keyfold/internal/testserver/authoritytest"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/redistest"

	"keyfold/engine/causes"
	"keyfold/service/status"
)

// named runs a command that asks servers, with nothing but these settings, and returns what it
// says of one. On a busy machine a server that refuses may be too late with it: it is asked again.
func named(t *testing.T, server string, settings ...string) (text string) {
	t.Helper()
	late := (&causes.Error{ID: causes.NoAnswer}).Page()
	eventually(t, server+" answers in time", func() error {
		if text = ask(t, server, settings...); strings.Contains(text, late) {
			return errors.New(text)
		}
		return nil
	})
	return text
}

// ask returns what one look says of a server.
func ask(t *testing.T, server string, settings ...string) string {
	t.Helper()
	s := &stack{dsn: "amqp://guest:guest@127.0.0.1:1/", mongo: "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", history: "mass"}
	args := append([]string{"config", "check", "--connect", "-o", "json"}, s.flags(settings...)...) // the last of a flag counts
	_, out, errs := keyfold(t.Context(), "", args...)
	var told struct {
		Servers []status.Server `json:"servers"`
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	for _, answer := range told.Servers {
		if answer.Server == server {
			return answer.Error
		}
	}
	t.Fatalf("nothing is said of %s:\n%s", server, out)
	return ""
}

// saysCause checks that a text has the sentence, the cure and the page of a cause.
func saysCause(t *testing.T, text string, server causes.Server, id causes.ID) {
	t.Helper()
	want := &causes.Error{ID: id, Server: server}
	if !strings.Contains(text, want.Sentence()+"; "+want.Cure()+" (") || !strings.Contains(text, "["+want.Page()+"]") {
		t.Errorf("%s of %s is told as\n%s", id, server.Name, text)
	}
}

// certificates are those that a client refuses, and the cause of each.
var certificates = map[causes.ID]func(*x509.Certificate){
	causes.Expired: authoritytest.Expired, causes.OtherHost: authoritytest.Elsewhere, causes.UnknownAuthority: nil,
}

// terminating is a TLS listener with a certificate in front of a server without TLS.
func terminating(t *testing.T, server string, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	must.OK(t, err)
	proxied := make(chan struct{})
	go func() {
		defer close(proxied)
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer near.Close()
				far, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer far.Close()
				go func() { _, _ = copyUntil(far, near) }()
				_, _ = copyUntil(near, far)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-proxied
	})
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return net.JoinHostPort("localhost", port)
}

func copyUntil(to, from net.Conn) (int, error) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return n, to.Close()
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return n, from.Close()
		}
	}
}

// Promise(security/causes): A server's fault has one sentence, one cure and one section of the
// runbook, the same in errors, log, `status` and `/readyz`.
func TestCausesOfMongoDB(t *testing.T) {
	t.Parallel()
	authority := authoritytest.New(t)
	at := func(host string) string { return "--mongodb-uri=mongodb://" + host + "/?serverSelectionTimeoutMS=2000" }
	server := mongotest.Start(t, mongotest.WithUser("shop", "secret"))
	for id, change := range certificates {
		host := terminating(t, server.Addr(), authority.TLS(t, change))
		trusted := "&tls=true"
		if id != causes.UnknownAuthority {
			trusted += "&tlsCAFile=" + authority.File()
		}
		saysCause(t, named(t, "MongoDB", at(host)+trusted), causes.MongoDB, id)
	}
	saysCause(t, named(t, "MongoDB", at("127.0.0.1:1")), causes.MongoDB, causes.Refused)
	saysCause(t, named(t, "MongoDB", at("no-such-host.invalid:27017")), causes.MongoDB, causes.Unresolved)
	saysCause(t, named(t, "MongoDB", at("shop:wrong@"+server.Addr())), causes.MongoDB, causes.Credentials)
}

// Promise(security/causes)
func TestCausesOfTheEmbeddingAPI(t *testing.T) {
	t.Parallel()
	authority := authoritytest.New(t)
	answer := http.StatusUnauthorized
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", answer) })
	at := func(url string) string {
		return named(t, "embedding API", "--embedder=openai", "--openai-api-key=key-of-a-test", "--openai-base-url="+url+"/v1")
	}
	for id, change := range certificates {
		s := httptest.NewUnstartedServer(handler)
		s.TLS = authority.TLS(t, change)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		defer s.Close()
		saysCause(t, at(s.URL), causes.EmbeddingAPI, id)
		if id == causes.UnknownAuthority {
			saysCause(t, at(strings.Replace(s.URL, "https:", "http:", 1)), causes.EmbeddingAPI, causes.NeedsTLS)
		}
	}
	plain := httptest.NewServer(handler)
	defer plain.Close()
	saysCause(t, at(strings.Replace(plain.URL, "http:", "https:", 1)), causes.EmbeddingAPI, causes.NoTLS)
	saysCause(t, at("http://127.0.0.1:1"), causes.EmbeddingAPI, causes.Refused)
	for status, id := range map[int]causes.ID{
		http.StatusUnauthorized: causes.Credentials, http.StatusForbidden: causes.Rights, http.StatusNotFound: causes.Missing,
		http.StatusTooManyRequests: causes.Rate, http.StatusPaymentRequired: causes.Quota, http.StatusBadGateway: causes.Failing,
	} {
		answer = status
		saysCause(t, at(plain.URL), causes.EmbeddingAPI, id)
	}
}

// Promise(security/causes)
func TestCausesOfRedis(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	at := func(url string) string {
		return named(t, "Redis", "--embedder=openai", "--openai-api-key=key-of-a-test", "--openai-base-url=http://127.0.0.1:1/v1", "--redis-url="+url)
	}
	for id, change := range certificates {
		s := redistest.Start(t, append(authority.Issue(t, change), "--requirepass", "secret")...)
		saysCause(t, at(s.TLSURL()), causes.Redis, id)
		if id == causes.UnknownAuthority {
			saysCause(t, at(strings.Replace(s.URL(), "redis://", "redis://:wrong@", 1)), causes.Redis, causes.Credentials)
		}
	}
	saysCause(t, at("redis://127.0.0.1:1"), causes.Redis, causes.Refused)
	few := redistest.Start(t, "--user", "shop", "on", ">secret", "~embeddings:*", "+set")
	saysCause(t, at(strings.Replace(few.URL(), "redis://", "redis://shop:secret@", 1)), causes.Redis, causes.Rights)
}

// Promise(security/causes)
func TestCausesOfPostgreSQL(t *testing.T) {
	t.Parallel()
	authority := authoritytest.New(t)
	s := pgtest.Start(t)
	at := func(host, more string) string {
		return named(t, "SQL", "--database-url=postgres://postgres@"+host+"/postgres?"+more)
	}
	saysCause(t, at(s.Address(), "sslmode=require"), causes.PostgreSQL, causes.NoTLS)
	saysCause(t, at("127.0.0.1:1", "sslmode=disable"), causes.PostgreSQL, causes.Refused)
	_, port, _ := net.SplitHostPort(s.Address())
	data := filepath.Join(s.Dir, "data")
	for id, change := range certificates {
		certificate, key := authority.Issue(t, change)
		owned(t, data, "server.crt", certificate)
		owned(t, data, "server.key", key)
		s.Exec(t, "ALTER SYSTEM SET ssl = on")
		s.Exec(t, "SELECT pg_reload_conf()")
		verify := "sslmode=verify-full"
		if id != causes.UnknownAuthority {
			verify += "&sslrootcert=" + authority.File()
		}
		eventually(t, string(id), func() error {
			if text := at(net.JoinHostPort("localhost", port), verify); !strings.Contains(text, string(id)) {
				return fmt.Errorf("%s", text)
			}
			return nil
		})
		saysCause(t, at(net.JoinHostPort("localhost", port), verify), causes.PostgreSQL, id)
	}
	s.Exec(t, "CREATE ROLE shop LOGIN CONNECTION LIMIT 0")
	saysCause(t, named(t, "SQL", "--database-url=postgres://shop@"+s.Address()+"/postgres?sslmode=disable"), causes.PostgreSQL, causes.Connections)
}

// owned copies a file into the folder of a server, for the folder's owner alone.
func owned(t *testing.T, folder, name, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must.OK(t, err)
	path := filepath.Join(folder, name)
	must.OK(t, os.WriteFile(path, text, 0o600))
	info, err := os.Stat(folder)
	must.OK(t, err)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		must.OK(t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
	}
}

// Promise(security/causes)
func TestCausesOfRabbitMQ(t *testing.T) {
	t.Parallel()
	authority := authoritytest.New(t)
	broker := rabbittest.Shared(t)
	vhost := broker.VHost(t)
	dsn := func(host, scheme string) string {
		return "--rabbitmq-dsn=" + strings.Replace(rabbittest.DSN(host, vhost), "amqp:", scheme+":", 1)
	}
	for id, change := range certificates {
		host := terminating(t, broker.Address(), authority.TLS(t, change))
		at := dsn(host, "amqps")
		if id != causes.UnknownAuthority {
			at += "?cacertfile=" + authority.File()
		}
		saysCause(t, named(t, "RabbitMQ", at), causes.RabbitMQ, id)
	}
	saysCause(t, named(t, "RabbitMQ", dsn(broker.Address(), "amqps")), causes.RabbitMQ, causes.NoTLS)
	saysCause(t, named(t, "RabbitMQ", strings.Replace(dsn(broker.Address(), "amqp"), "guest:guest", "guest:wrong", 1)), causes.RabbitMQ, causes.Credentials)
	limit := func(most int) {
		_, err := broker.Eval(fmt.Sprintf(`ok = rabbit_vhost_limit:update_limit(<<"%s">>, <<"max-connections">>, %d, <<"test">>).`, vhost, most))
		must.OK(t, err)
	}
	limit(0)
	saysCause(t, named(t, "RabbitMQ", dsn(broker.Address(), "amqp")), causes.RabbitMQ, causes.Connections)
	limit(-1)
	// A user of its own, since the limit counts the channels of all of a user's connections.
	broker.AddUser(t, "few-channels", "few")
	broker.Permit(t, vhost, "few-channels", ".*", ".*", ".*")
	broker.LimitUser(t, "few-channels", "max-channels", 0)
	saysCause(t, named(t, "RabbitMQ", strings.Replace(dsn(broker.Address(), "amqp"), "guest:guest", "few-channels:few", 1)), causes.RabbitMQ, causes.Channels)
}

// The page and the text of status and of a relay's /readyz are those of the error. It runs alone:
// an alarm blocks every publisher of the broker.
//
// Promise(security/causes)
func TestCausesThroughStatus(t *testing.T) {
	t.Parallel()
	broker := rabbittest.StartWithStatistics(t) // other tests have none of its alarm
	vhost := broker.VHost(t)
	file := "--database-url=sqlite://" + filepath.Join(t.TempDir(), "outbox.db")
	s := &stack{dsn: rabbittest.DSN(broker.Address(), vhost), mongo: mongotest.Start(t).URI(), history: "mass"}
	s.setUp(t, file)
	d := startDaemon(t, append([]string{"ingest", "--relay", "--http-addr=127.0.0.1:0", file}, s.flags()...)...)
	d.ready()
	url := d.url()
	post := func(id string) {
		body := fmt.Sprintf(`{"user_id":1,"event_type":"product_view","product_id":1,"occurred_at":"2026-02-10T14:30:00Z","message_id":%q}`, id)
		res, err := http.Post(url, "application/json", strings.NewReader(body))
		must.OK(t, err)
		_ = res.Body.Close()
	}
	post("before")
	eventually(t, "it is published", func() error {
		if n := s.depth(t, "user_embedding_updates"); n != 1 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	broker.Alarm(t, true)
	defer broker.Alarm(t, false)
	const sentence = "RabbitMQ blocks publishing: low on memory"
	n := 0
	eventually(t, "/readyz tells of the alarm", func() error {
		n++
		post(fmt.Sprint("during ", n))
		if _, body := d.get("/readyz"); !strings.Contains(body, sentence) || !strings.Contains(body, "[docs/RUNBOOK.md#publishing-blocked]") {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	eventually(t, "the log tells of the alarm", func() error {
		if log := d.log.String(); !strings.Contains(log, sentence) || !strings.Contains(log, "free its memory or its disk") {
			return fmt.Errorf("%s", log)
		}
		return nil
	})
	address := adminAddr.FindStringSubmatch(d.log.String())[1]
	_, out, errs := s.run(t, "", "status", "--processes", address, file, "-o", "json")
	var r status.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	for _, p := range r.Problems {
		if strings.Contains(p.Text, sentence) && p.Runbook == string(causes.Alarm) && !strings.Contains(p.Text, "docs/") {
			return
		}
	}
	t.Errorf("status has no problem of the alarm:\n%s", out)
}
