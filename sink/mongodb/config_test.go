package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
)

// What the laws need is not the URI's to change.
//
// Promise(away/import-slow-store, mongodb/majority)
func TestURICannotWeakenTheStore(t *testing.T) {
	c := DefaultConfig()
	c.URI = "mongodb://h/?w=1&journal=false&readConcernLevel=local&readPreference=secondary&timeoutMS=66&appName=shop&maxPoolSize=3&connectTimeoutMS=77&serverSelectionTimeoutMS=88"
	o := c.clientOptions()
	must.OK(t, o.Validate())
	if o.WriteConcern.W != "majority" || !*o.WriteConcern.Journal || o.ReadConcern.Level != "majority" || o.ReadPreference.Mode() != readpref.PrimaryMode {
		t.Errorf("write concern %+v, read concern %+v, read preference %v", o.WriteConcern, o.ReadConcern, o.ReadPreference)
	}
	if *o.Timeout != 66*time.Millisecond || *o.ConnectTimeout != 77*time.Millisecond || *o.ServerSelectionTimeout != 88*time.Millisecond {
		t.Errorf("timeouts %v, %v, %v", *o.Timeout, *o.ConnectTimeout, *o.ServerSelectionTimeout)
	}
	if *o.AppName != "shop" || *o.MaxPoolSize != 3 || !*o.RetryWrites {
		t.Errorf("application %q, pool %d, retries %v", *o.AppName, *o.MaxPoolSize, *o.RetryWrites)
	}
	c.URI = "mongodb://h/?timeoutMS=0"
	if o = c.clientOptions(); *o.Timeout != c.Timeout || *o.ConnectTimeout != c.ConnectTimeout || *o.ServerSelectionTimeout != c.SelectionTimeout ||
		*o.MaxPoolSize != c.PoolSize || !strings.HasPrefix(*o.AppName, "keyfold ") {
		t.Errorf("without URI options: %v, %v, %d, %q", *o.ConnectTimeout, *o.ServerSelectionTimeout, *o.MaxPoolSize, *o.AppName)
	}
}

func TestEveryFaultIsReported(t *testing.T) {
	_, err := Open(ctx, Config{URI: "mysql://x", Database: "a.b", Dimensions: -1, History: "other", Timeout: -1})
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != reasonSettings {
		t.Fatalf("got %v, want a configuration fault", err)
	}
	for _, name := range []string{"mongodb.Config.URI", "mongodb.Config.Database", "profile.Config.Dimensions", "profile.Config.History", "timeouts"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
}

// Reading a mongodb+srv address asks the name servers, which may be away: a
// worker waits for them as for its store.
func TestNameServersAway(t *testing.T) {
	for _, tc := range []struct {
		err  error
		kind engine.Kind
	}{
		{&net.DNSError{Err: "i/o timeout", Name: "shop.example.com", IsTimeout: true}, engine.Transient},
		{&net.DNSError{Err: "server misbehaving", Name: "shop.example.com", IsTemporary: true}, engine.Transient},
		{&net.DNSError{Err: "no such host", Name: "shop.example.com", IsNotFound: true}, engine.Configuration},
		{errors.New("URI with srv must not include a port number"), engine.Configuration},
	} {
		err := addressFault("mongodb+srv://bob:hunter2@shop.example.com/", fmt.Errorf("error parsing uri: %w", tc.err))
		if engine.KindOf(err) != tc.kind || !strings.Contains(err.Error(), "mongodb.Config.URI") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v: %v", tc.err, engine.KindOf(err), err)
		}
	}
	c := DefaultConfig()
	for _, uri := range []string{"mongodb+srv://us%zzer:p@shop.example.com/", "mongodb+srv://shop.example.com:27017/"} {
		if c.URI = uri; c.Validate() == nil {
			t.Errorf("%s: no fault", uri)
		}
	}
}

func TestPasswordIsInNoError(t *testing.T) {
	for _, uri := range []string{
		"mongodb://bob:hun/ter2@h:27017/", "mongodb://bob:hun@ter2@h/", "mongodb://bob:hun%ter2@h/", "mongodb://bob:hun:ter2@h/",
		"mongodb://bob:hunter2@h:port/", "mongodb://bob:hunter2@/", "bob:hunter2@h", "mongodb://bob:hunter2@h/?authSource=hunter2&w=%",
		"mongodb://bob:hunter2@h/?tls=hunter2", "mongodb+srv://bob:hunter2@h.invalid.:1/",
	} {
		c := DefaultConfig()
		c.URI, c.ConnectTimeout, c.SelectionTimeout = uri, 50*time.Millisecond, 50*time.Millisecond
		_, err := Open(ctx, c)
		if err == nil {
			t.Errorf("%s: no error", uri)
			continue
		}
		for _, part := range []string{"hunter2", "hun/ter2", "hun@ter2", "hun%ter2", "hun:ter2", "ter2"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error %q holds the password", uri, err)
				break
			}
		}
	}
}

func TestLogin(t *testing.T) {
	server := standIn(t, "a user of its own", mongotest.WithUser("bob", "p@ss/word"))
	with := func(userinfo string) Config {
		return settings(strings.Replace(server.URI(), "://", "://"+userinfo, 1), 4)
	}
	openReady(t, with("bob:p%40ss%2Fword@"))
	for _, userinfo := range []string{"bob:wr0ng@", "eve:p%40ss%2Fword@", ""} {
		_, err := Open(ctx, with(userinfo))
		if engine.KindOf(err) != engine.Configuration {
			t.Errorf("as %q: %v, want a configuration fault", userinfo, err)
			continue
		}
		cure := "MONGODB_URI"
		if userinfo == "" {
			cure = "names no user and MongoDB wants one"
		}
		if text := err.Error(); !strings.Contains(text, cure) || strings.Contains(text, "wr0ng") || strings.Contains(text, "ss%2F") {
			t.Errorf("as %q: the error %q does not say %q, or says the password", userinfo, text, cure)
		} else if userinfo == "" && (strings.Contains(text, "grant") || !strings.Contains(text, "add user and password")) {
			t.Errorf("without credentials: %q", text)
		}
	}
}

// Promise(event/configuration)
func TestLoginWithdrawn(t *testing.T) {
	server := standIn(t, "a user of its own", mongotest.WithUser("bob", "x"))
	s := openReady(t, settings(strings.Replace(server.URI(), "://", "://bob:x@", 1), 4))
	mongotest.FailCommand(t, server.URI(), "alwaysOn", bson.M{"failCommands": bson.A{"saslStart"}, "errorCode": codeAuthenticationFailed})
	must.OK(t, server.Disconnect())
	var err error
	for range 50 {
		// The first writes may find their connection cut before they meet the login.
		if err = s.Swap(ctx, []*profile.Profile{newProfile(1, 1)})[0]; engine.KindOf(err) != engine.Transient {
			break
		}
	}
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != reasonLogin {
		t.Errorf("got %v, want a configuration fault", err)
	}
}

func TestNobodyThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	c := settings("mongodb://bob:hunter2@"+listener.Addr().String()+"/", 4)
	quick(&c)
	must.OK(t, listener.Close())
	if _, err = Open(ctx, c); err == nil || engine.KindOf(err) != engine.Transient || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v, want a transient error without the password", err)
	}
	if text := "connection refused at " + listener.Addr().String(); !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s", err, text)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = Open(ended, c); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}
