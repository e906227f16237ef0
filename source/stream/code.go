package stream

import (
	"errors"
	"fmt"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/source/rabbit"
)

// Code is the answer of a broker that refuses something. It is an error.
type Code uint16

// Codes of the protocol.
const (
	ok                    Code = 1
	StreamMissing         Code = 2
	subscriptionMissing   Code = 4
	StreamExists          Code = 5
	StreamNotAvailable    Code = 6 // deleted, or its leader is moving
	mechanismNotSupported Code = 7
	AuthenticationFailed  Code = 8
	loopbackOnly          Code = 11 // the user may connect from the broker's own machine only
	VHostRefused          Code = 12
	AccessRefused         Code = 16
	PreconditionFailed    Code = 17
	noOffset              Code = 19
)

var codeTexts = map[Code]string{
	ok: "ok", StreamMissing: "the stream does not exist", 3: "the subscription exists already", subscriptionMissing: "the subscription does not exist",
	StreamExists: "the stream exists already", StreamNotAvailable: "the stream is not available: it was deleted, or its leader is moving",
	mechanismNotSupported: "the SASL mechanism is not supported", AuthenticationFailed: "authentication failed", 9: "SASL error", 10: "SASL challenge",
	loopbackOnly: "the user may connect from the broker's own machine only", VHostRefused: "the virtual host does not exist, or the user has no access to it",
	13: "unknown frame", 14: "the frame is too large", 15: "internal error", AccessRefused: "access refused", PreconditionFailed: "precondition failed",
	18: "the publisher does not exist", noOffset: "there is no stored offset",
}

// Error returns "what was refused (code)".
func (c Code) Error() string {
	if text := codeTexts[c]; text != "" {
		return fmt.Sprintf("%s (code %d)", text, uint16(c))
	}
	return fmt.Sprintf("code %d", uint16(c))
}

// fault names what was being done when err came, and gives it its cause and kind.
func fault(doing string, err error) error {
	err = fmt.Errorf("rabbitmq stream: %s: %w", doing, err)
	code, refused := errors.AsType[Code](err)
	if !refused {
		return causes.Known(causes.Streams, err)
	}
	switch code {
	case AuthenticationFailed, loopbackOnly, mechanismNotSupported:
		return rabbit.Refused(causes.Streams, causes.Credentials, err)
	case VHostRefused:
		return rabbit.Refused(causes.Streams, causes.Missing, err)
	case AccessRefused:
		return rabbit.Refused(causes.Streams, causes.Rights, err)
	case StreamMissing:
		return engine.ConfigurationError(rabbit.ReasonQueueMissing, fmt.Errorf("%w; run %s", err, rabbit.Names{}.SetupCommand()))
	default:
		return err
	}
}
