package httpapi

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"
)

// SessionCookie is the name of the cookie. Its prefix has browsers take it only over a secure
// connection or from loopback, and send it to this host alone.
const SessionCookie = "__Host-keyfold"

// sessionLength is how long a cookie is good for.
const sessionLength = 12 * time.Hour

// Sessions let a browser in that has shown a token once. The cookie holds no token: it is a MAC
// of the token's digest and of the session's end, with a key of this process. It is worth nothing
// once its token is not listed any more, and after a restart.
type Sessions struct {
	key    [sha256.Size]byte
	tokens *reloader[tokens] // those of the server
}

// NewSessions returns sessions for one server.
func NewSessions() *Sessions {
	s := &Sessions{}
	_, _ = rand.Read(s.key[:]) // it never fails
	return s
}

// Begin returns the cookie of a session, nil where the token is not known.
func (s *Sessions) Begin(token string) *http.Cookie {
	digest, may := s.tokens.get().find(token)
	if may.scopes == 0 {
		return nil
	}
	end := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(sessionLength).Unix()))
	c := s.End()
	c.Value, c.MaxAge = base64.RawURLEncoding.EncodeToString(append(end, s.mac(digest, end)...)), int(sessionLength/time.Second)
	return c
}

// End returns a cookie that ends a session in the browser.
func (s *Sessions) End() *http.Cookie {
	return &http.Cookie{Name: SessionCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

func (s *Sessions) mac(digest tokenDigest, end []byte) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	_, _ = mac.Write(digest[:])
	_, _ = mac.Write(end)
	return mac.Sum(nil)
}

// find returns the token that a request's cookie was given for, and nothing where it is none of
// these or its session has ended.
func (s *Sessions) find(r *http.Request, all tokens, now time.Time) (tokenDigest, grant) {
	const endBytes = 8
	cookie, err := r.Cookie(SessionCookie)
	if err != nil {
		return tokenDigest{}, grant{}
	}
	value, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(value) != endBytes+sha256.Size || int64(binary.BigEndian.Uint64(value)) <= now.Unix() {
		return tokenDigest{}, grant{}
	}
	end, mac := value[:endBytes], value[endBytes:]
	for i, digest := range all.digests {
		if hmac.Equal(mac, s.mac(digest, end)) {
			return digest, all.grants[i]
		}
	}
	return tokenDigest{}, grant{}
}
