package ingest

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const grantToken = "0123456789abcdefgh"

// A token names the sources and types of notifications that it may post.
func TestATokenNamesItsSources(t *testing.T) {
	all, err := loadTokens([]string{grantToken + " send", "read source=newsletter|crm type=PROMO", "9876543210abcdefgh"}, "", nil, nil)
	if err != nil || len(all.grants) != 2 {
		t.Fatalf("%d tokens, %v", len(all.grants), err)
	}
	_, may := all.find(grantToken)
	if want := (grant{scopes: ScopeSend | ScopeRead, sources: []string{"newsletter", "crm"}, types: []string{"PROMO"}}); !reflect.DeepEqual(may, want) {
		t.Fatalf("the token may %+v, want %+v", may, want)
	}
	r := &Request{visitor: visitor{may: may}}
	for _, c := range []struct{ source, kind, reason string }{
		{"newsletter", "PROMO", ""},
		{"crm", "PROMO", ""},
		{"payments", "PROMO", "source_forbidden"},
		{"newsletter", "ALERT", "type_forbidden"},
	} {
		f := r.Forbidden(c.source, c.kind)
		if (f == nil) != (c.reason == "") || f != nil && (f.Reason != c.reason || !strings.Contains(f.Error, "HTTP_TOKEN_FILE")) {
			t.Errorf("%s of %s: %+v, want %q", c.kind, c.source, f, c.reason)
		}
	}
	if refused := r.visitor.unlimited(); refused == nil {
		t.Error("such a token may post events")
	}
	if _, may, err := parseToken(grantToken + " source=crm"); err != nil || may.scopes != ScopeSend {
		t.Errorf("a token with limits and no scope may %+v, %v", may, err)
	}
	if _, may := all.find("9876543210abcdefgh"); may.limited() || may.scopes != allScopes {
		t.Errorf("a token alone may %+v", may)
	}
	for _, bad := range []string{"send source=", "send types=PROMO", "type=promo", "send source=a||b", "sent source=a"} {
		if _, _, err := parseToken(grantToken + " " + bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A token for some notifications posts no events: the door asks for more than its scope.
func TestALimitedTokenPostsNoEvents(t *testing.T) {
	c := onLoopback()
	c.Tokens = []string{"limited-token-0001 send source=newsletter", "limited-token-0002 type=PROMO", "sender-token-00001 send"}
	m := newMemory()
	s := newTestServer(t, c, m)
	for _, limited := range []string{"limited-token-0001", "limited-token-0002"} {
		w, answer := serve(t, s, from("192.0.2.1:9", limited))
		if w.Code != http.StatusForbidden || len(answer.Errors) != 1 || answer.Errors[0].Reason != "token_limited" {
			t.Errorf("%s meets %d %+v", limited, w.Code, answer)
		}
	}
	if got := status(t, s, from("192.0.2.1:9", "sender-token-00001")); got != http.StatusAccepted || len(m.bodies) != 1 {
		t.Errorf("the other one meets %d, and %d events are stored", got, len(m.bodies))
	}
}
