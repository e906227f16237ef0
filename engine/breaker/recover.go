package breaker

import (
	"context"
	"time"

	"keyfold/engine/backoff"
)

// recover probes until the store answers or the breaker's life ends. It is the
// goroutine of one opening.
func (b *Breaker) recover() {
	b.tell()
	expiry := time.NewTimer(b.config.HoldMax)
	defer expiry.Stop()
	pause := time.NewTimer(b.config.MinPause)
	defer pause.Stop()
	for wait := b.config.MinPause; ; {
		select {
		case <-b.life.Done():
			return
		case <-expiry.C:
			b.expire()
			b.tell()
		case <-pause.C:
			if b.probed() {
				b.tell()
				return
			}
			wait = min(2*wait, b.config.MaxPause)
			// Workers that lost one store at once do not come back as one.
			pause.Reset(backoff.Jitter(wait))
		}
	}
}

// probed asks the store once and closes the breaker if it answers.
func (b *Breaker) probed() bool {
	ctx, cancel := context.WithTimeout(b.life, b.config.ProbeTimeout)
	defer cancel()
	err := b.probe(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Probes++
	if err != nil {
		if b.life.Err() == nil {
			b.state.Cause = err
		}
		return false
	}
	b.state.Open, b.state.Expired = false, false
	b.state.Since, b.state.Cause = time.Now(), nil
	b.share.Forget()
	for _, l := range b.groups {
		l.failures = 0
		if l.calls > 0 {
			l.watchSilence() // calls that hang still, hang anew
		}
	}
	b.move()
	return true
}

// expire ends the wait of everybody.
func (b *Breaker) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Expired = true
	b.move()
}
