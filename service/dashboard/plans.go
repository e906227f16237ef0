package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	planLife   = 5 * time.Minute // after which what was counted is too old to be done
	mostPlans  = 64
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
	p.makeRoom()
	p.all[name] = keptPlan{one, p.now().Add(planLife)}
	time.AfterFunc(planLife+time.Second, p.forgetOld)
	return name
}

// makeRoom drops the oldest plan where there are too many.
func (p *plans) makeRoom() {
	if len(p.all) < mostPlans {
		return
	}
	first, end := "", time.Time{}
	for name, one := range p.all {
		if first == "" || one.until.Before(end) {
			first, end = name, one.until
		}
	}
	delete(p.all, first)
}

// forgetOld drops plans that are over: what they hold may be large.
func (p *plans) forgetOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	maps.DeleteFunc(p.all, func(_ string, one keptPlan) bool { return one.until.Before(now) })
}

// take returns a plan and forgets it, or says why it cannot be done.
func (p *plans) take(name, who string) (keptPlan, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, known := p.all[name]
	switch {
	case !known:
		return keptPlan{}, "this plan is not known: it was done, is older than 5 minutes, or was made before a restart"
	case one.who != who:
		return keptPlan{}, "this plan is another's"
	}
	delete(p.all, name)
	if one.until.Before(p.now()) {
		return keptPlan{}, "this plan is older than 5 minutes"
	}
	return one, ""
}

// giveBack keeps a plan again that was taken and could not be begun.
func (p *plans) giveBack(name string, one keptPlan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.makeRoom()
	p.all[name] = one
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
