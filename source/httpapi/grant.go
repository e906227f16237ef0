package httpapi

import (
	"fmt"
	"slices"
	"strings"
)

// grant is what a token may be used for.
type grant struct {
	scopes  Scope
	sources []string // of notifications that it may post; nil: of every one
	types   []string // of notifications that it may post; nil: every one
}

// whole is what a request may do that needs no token.
var whole = grant{scopes: allScopes}

// limited reports whether only some notifications may be posted, and no events.
func (g *grant) limited() bool { return g.sources != nil || g.types != nil }

// parseGrant reads what stands behind a token: scopes with commas between them, and
// source=a|b or type=PROMO|UPDATE, with signs between the values that no list of tokens
// is cut at.
func parseGrant(text string) (g grant, err error) {
	var names []string
	for _, word := range strings.Fields(text) {
		name, values, isLimit := strings.Cut(word, "=")
		if !isLimit {
			names = append(names, word)
			continue
		}
		if err := g.limit(name, strings.Split(values, "|")); err != nil {
			return grant{}, err
		}
	}
	if len(names) == 0 && g.limited() {
		g.scopes = ScopeSend // to read all users' notifications or publish rules it has to be named
		return g, nil
	}
	for name := range strings.SplitSeq(strings.Join(names, " "), ",") {
		one := scopeOf(strings.TrimSpace(name))
		if one == 0 {
			return grant{}, fmt.Errorf("is followed by what is no scope: write none, or some of %s with commas between them", strings.Join(scopeNames, ", "))
		}
		g.scopes |= one
	}
	return g, nil
}

func (g *grant) limit(name string, values []string) error {
	if slices.Contains(values, "") {
		return fmt.Errorf("is followed by a %s without a value: write source=SOURCE|SOURCE or type=TYPE|TYPE", short(name))
	}
	switch name {
	case "source":
		g.sources = append(g.sources, values...)
	case "type":
		for _, v := range values {
			if strings.Trim(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
				return fmt.Errorf("is followed by %s, which is no type: write types in capitals with | between them, such as PROMO|UPDATE", short(v))
			}
		}
		g.types = append(g.types, values...)
	default:
		return fmt.Errorf("is followed by %s=, which is no limit: write source=SOURCE|SOURCE or type=TYPE|TYPE", short(name))
	}
	return nil
}

// Limited reports whether the request's token may post notifications of some sources or
// types alone.
func (r *Request) Limited() bool { return r.visitor.may.limited() }

// Forbidden returns why the request's token may not post a notification of a source and
// a type; nil: it may.
func (r *Request) Forbidden(source, kind string) *Fault {
	may := &r.visitor.may
	for _, limit := range []struct {
		name, value string
		allowed     []string
	}{{"source", source, may.sources}, {"type", kind, may.types}} {
		if limit.allowed == nil || slices.Contains(limit.allowed, limit.value) {
			continue
		}
		field := map[string]string{"source": "source", "type": "event_type"}[limit.name]
		return &Fault{Field: field, Reason: limit.name + "_forbidden", Error: fmt.Sprintf(
			"%s: found %s, and the token may post %s only: use another token, or add it to %s= behind the token in %s",
			field, short(limit.value), strings.Join(limit.allowed, ", "), limit.name, TokenSettings())}
	}
	return nil
}
