package embedtest

import (
	"math/rand/v2"
	"time"
)

// Faults say what goes wrong. Shares are of requests, from 0 to 1 together; the
// zero value is a server that answers well, and at once.
type Faults struct {
	Latency time.Duration // before every answer

	TooMany     float64 // 429, with RetryAfter
	ServerError float64 // 500
	Hang        float64 // no answer until the client or the server ends
	HangUp      float64 // the connection closes without an answer
	Truncate    float64 // the JSON ends in its middle

	WrongDimensions float64 // one vector is a component short
	WrongCount      float64 // one vector is absent
	WrongIndex      float64 // two vectors have one index
	NotFinite       float64 // one vector holds NaN, or what no float32 holds
	Zero            float64 // one vector is zero

	// RetryAfter goes with 429 and with Status, in whole milliseconds.
	RetryAfter time.Duration
	// Shuffle sends vectors out of order, with the right index: no fault.
	Shuffle bool
	// Status, if it is not 0, answers every request, with Code and Message.
	Status        int
	Code, Message string
	// Refuse tells the inputs a request is answered 400 for; may be nil.
	Refuse func(input string) bool
	// MaxInputs, if it is not 0, answers 413 to a request of more.
	MaxInputs int
}

// fault is what goes wrong with one request.
type fault uint8

const (
	none fault = iota
	tooMany
	serverError
	hang
	hangUp
	truncate
	wrongDimensions
	wrongCount
	wrongIndex
	notFinite
	zero
)

// draw picks a fault by the shares.
func (f *Faults) draw(random *rand.Rand) fault {
	at := random.Float64()
	for i, share := range []float64{
		f.TooMany, f.ServerError, f.Hang, f.HangUp, f.Truncate,
		f.WrongDimensions, f.WrongCount, f.WrongIndex, f.NotFinite, f.Zero,
	} {
		if at < share {
			return tooMany + fault(i)
		}
		at -= share
	}
	return none
}
