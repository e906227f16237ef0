package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"sync"
	"time"
)

const (
	planLife   = 5 * time.Minute // after which what was counted is too old to be done
	mostPlans  = 256
	unlockLife = 12 * time.Hour
)

// unlockName is the name of the cookie of a browser that may change something without a token.
const unlockName = "__Host-keyfold-actions"

// pending is a plan that may be done once, by the one who made it.
type pending struct {
	action  *Action
	planned *Planned
	who     string
	back    string
}

// plans keeps what was planned. A form holds a random name alone, so that there is nothing in it
// to alter; a restart forgets all.
type plans struct {
	now func() time.Time
	key [sha256.Size]byte

	mu  sync.Mutex
	all map[string]keptPlan
}

type keptPlan struct {
	pending
	until time.Time
}

func newPlans(now func() time.Time) *plans {
	p := &plans{now: now, all: map[string]keptPlan{}}
	_, _ = rand.Read(p.key[:]) // it never fails
	return p
}

// keep returns the name under which a plan is taken; "": there is nothing to do.
func (p *plans) keep(one pending) string {
	if one.planned.Button == "" {
		return ""
	}
	name := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetOld()
	p.all[name] = keptPlan{one, p.now().Add(planLife)}
	return name
}

// forgetOld drops plans that are over, and where that is not enough the oldest.
func (p *plans) forgetOld() {
	now, first, end := p.now(), "", time.Time{}
	for name, one := range p.all {
		if one.until.Before(now) {
			delete(p.all, name)
		} else if first == "" || one.until.Before(end) {
			first, end = name, one.until
		}
	}
	if len(p.all) >= mostPlans {
		delete(p.all, first)
	}
}

// take returns a plan and forgets it, or says why it cannot be done.
func (p *plans) take(name, who string) (pending, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, known := p.all[name]
	switch {
	case !known:
		return pending{}, "this plan is not known: it was done, is older than 5 minutes, or was made before a restart"
	case one.who != who:
		return pending{}, "this plan is another's"
	}
	delete(p.all, name)
	if one.until.Before(p.now()) {
		return pending{}, "this plan is older than 5 minutes"
	}
	return one.pending, ""
}

// unlockCookie returns a cookie that lets a browser change something.
func (p *plans) unlockCookie() *http.Cookie {
	end := binary.BigEndian.AppendUint64(nil, uint64(p.now().Add(unlockLife).Unix())) //nolint:gosec // after 1970
	return &http.Cookie{
		Name: unlockName, Value: base64.RawURLEncoding.EncodeToString(append(end, p.mac(end)...)), Path: "/", MaxAge: int(unlockLife / time.Second),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

func (p *plans) mac(end []byte) []byte {
	mac := hmac.New(sha256.New, p.key[:])
	_, _ = mac.Write(end)
	return mac.Sum(nil)
}

// unlocked reports whether a request shows such a cookie.
func (p *plans) unlocked(r *http.Request) bool {
	const endBytes = 8
	cookie, err := r.Cookie(unlockName)
	if err != nil {
		return false
	}
	value, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(value) != endBytes+sha256.Size {
		return false
	}
	return hmac.Equal(value[endBytes:], p.mac(value[:endBytes])) && int64(binary.BigEndian.Uint64(value)) > p.now().Unix() //nolint:gosec // it made it
}
