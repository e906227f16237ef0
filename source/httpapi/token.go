package httpapi

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// minToken is the shortest token: 16 random characters of base64 are 96 bits.
const minToken = 16

// tokenDigest is the SHA-256 of a token. Only digests are kept.
type tokenDigest [sha256.Size]byte

// tokens are those a sender may show.
type tokens struct {
	digests []tokenDigest
	grants  []grant // aligned with digests
	// unread: the token file cannot be read, so that it is not known what it
	// lists.
	unread bool
}

// find looks for a token in time that depends on neither its text nor its
// place. A token without scopes is not known.
func (t tokens) find(token string) (tokenDigest, grant) {
	digest := tokenDigest(sha256.Sum256([]byte(token)))
	found := 0
	for i := range t.digests {
		same := subtle.ConstantTimeCompare(t.digests[i][:], digest[:])
		found = subtle.ConstantTimeSelect(same, i+1, found)
	}
	if found == 0 {
		return digest, grant{}
	}
	return digest, t.grants[found-1]
}

// add adds a token and its scopes, as they are listed.
func (t *tokens) add(entry string) error {
	token, may, err := parseToken(entry)
	if err == nil {
		t.digests, t.grants = append(t.digests, sha256.Sum256([]byte(token))), append(t.grants, may)
	}
	return err
}

// parseToken reads "TOKEN", "TOKEN scope,scope" or "TOKEN scope source=a|b type=PROMO". A
// token without scopes has all of them. The error does not repeat the token.
func parseToken(entry string) (token string, may grant, err error) {
	token, rest, found := strings.Cut(strings.ReplaceAll(entry, "\t", " "), " ")
	if err := checkToken(token); err != nil {
		return "", grant{}, err
	}
	if !found {
		return token, whole, nil
	}
	may, err = parseGrant(rest)
	return token, may, err
}

// listed returns the entries of HTTP_TOKENS, which was cut at its commas: the name of
// a scope belongs to the token before it. No token is as short.
func listed(parts []string) (entries []string) {
	for _, part := range parts {
		name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
		if last := len(entries) - 1; last >= 0 && scopeOf(name) != 0 {
			entries[last] += "," + part
		} else {
			entries = append(entries, part)
		}
	}
	return entries
}

// checkToken says what is wrong with a token, without repeating it.
func checkToken(token string) error {
	if strings.ContainsFunc(token, outside("-._~+/=")) { // RFC 6750, section 2.1
		return errors.New("has a character that a bearer token cannot have: use letters, digits and -._~+/= only, e.g. from `openssl rand -base64 32`")
	}
	if len(token) < minToken {
		return fmt.Errorf("has %d characters: use at least %d, e.g. from `openssl rand -base64 32`", len(token), minToken)
	}
	return nil
}

// loadTokens returns those of HTTP_TOKENS, which were checked, and those of a token file's
// text: one a line, blank lines and lines that start with # aside. There may be no file;
// unreadable says why it could not be read. With an error, the tokens are those that could
// be read all the same.
func loadTokens(given []string, path string, files [][]byte, unreadable error) (tokens, error) {
	var all tokens
	for _, entry := range listed(given) {
		_ = all.add(entry) // [Config.Validate] has judged it
	}
	before := len(all.digests)
	if all.unread = unreadable != nil; all.unread || len(files) == 0 {
		return all, unreadable
	}
	var fault error
	number := 0
	for line := range bytes.Lines(files[0]) {
		number++
		token := string(bytes.TrimSpace(line))
		if token == "" || token[0] == '#' {
			continue
		}
		if err := all.add(token); err != nil && fault == nil {
			fault = fmt.Errorf("%s: the token on line %d %w", path, number, err)
		}
	}
	if fault == nil && len(all.digests) == before {
		fault = fmt.Errorf("%s has no token: write one a line, e.g. from `openssl rand -base64 32`", path)
	}
	return all, fault
}

// bearer returns the token of an Authorization header, "" where there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}

// unauthorized asks for a token. RFC 6750, section 3: a request that showed
// none is told no error code.
func unauthorized(shown bool) *Answer {
	challenge := `Bearer realm="keyfold"`
	a := refuse(http.StatusUnauthorized, "token_missing", "send the header Authorization: Bearer TOKEN")
	if shown {
		challenge += `, error="invalid_token"`
		a = refuse(http.StatusUnauthorized, "token_invalid", "the token is not known here: it may have been replaced")
	}
	a.Header = http.Header{"Www-Authenticate": {challenge}}
	return a
}
