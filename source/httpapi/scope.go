package httpapi

import (
	"fmt"
	"net/http"
	"slices"
)

// Scope is a set of what a token may be used for.
type Scope uint8

// The scopes.
const (
	ScopeSend    Scope = 1 << iota // post events and notifications
	ScopeRead                      // read decisions and preferences
	ScopeDeliver                   // report deliveries
	ScopeAdmin                     // change what is stored of users
	allScopes    = ScopeSend | ScopeRead | ScopeDeliver | ScopeAdmin
)

// scopeNames are the scopes as they are written behind a token, in their order.
var scopeNames = []string{"send", "read", "deliver", "admin"}

func scopeOf(name string) Scope {
	at := slices.Index(scopeNames, name)
	if at < 0 {
		return 0
	}
	return 1 << at
}

// String returns the scope's name.
func (s Scope) String() string {
	for i, name := range scopeNames {
		if s == 1<<i {
			return name
		}
	}
	return ""
}

// visitor is who makes a request.
type visitor struct {
	key   string // of the shares and the rate: a token's digest, or an address
	may   grant
	token bool   // key is a token's digest
	user  string // whom a proxy names; "": none
}

// May reports whether the request's token has the scope, as [Request.Require] judges.
func (r *Request) May(s Scope) bool { return r.visitor.may.scopes&s != 0 }

// Who names the sender for people, without a secret: the user that a proxy names, the start of the
// digest of its token, as `printf %s TOKEN | sha256sum` prints it, or its address.
func (r *Request) Who() string {
	if r.visitor.user != "" {
		return "user " + r.visitor.user
	}
	if !r.visitor.token {
		return r.Address()
	}
	return fmt.Sprintf("token %x", r.visitor.key[:4])
}

// Address returns the sender's address, as the access control knows it.
func (r *Request) Address() string { return addressOf(r.Request) }

// Require refuses a request whose token has not the scope. Without tokens, and with one
// that lists no scopes, every request has all of them.
func (r *Request) Require(s Scope) *Answer {
	if r.May(s) {
		return nil
	}
	a := refuse(http.StatusForbidden, "scope_missing",
		fmt.Sprintf("the token may not be used for this: it needs the scope %s; add it behind the token in %s", s, TokenSettings()))
	a.Header = http.Header{"Www-Authenticate": {fmt.Sprintf(`Bearer realm="keyfold", error="insufficient_scope", scope="%s"`, s)}}
	return a
}
