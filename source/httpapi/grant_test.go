package httpapi

import (
	"reflect"
	"strings"
	"testing"
)

const grantToken = "0123456789abcdefgh"

// A token names the sources and types of notifications that it may post.
//
// Promise(api/limited-tokens): A token for some sources or types gets 403 for others, and nothing is
// stored; with `partial=true` that entry alone is refused.
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
		if (f == nil) != (c.reason == "") || f != nil && (f.Reason != c.reason || !strings.Contains(f.Error, "httpapi.Config.TokenFile")) {
			t.Errorf("%s of %s: %+v, want %q", c.kind, c.source, f, c.reason)
		}
	}
	if !r.Limited() {
		t.Error("such a token is not limited")
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
