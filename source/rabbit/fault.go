package rabbit

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// Reasons of configuration faults at the broker.
const (
	ReasonAccessRefused    = "access_refused" // user, password or permission
	ReasonVHostRefused     = "vhost_refused"  // no such virtual host, no access to it, or its limit
	ReasonQueueMissing     = "queue_missing"
	ReasonQueueMismatch    = "queue_mismatch"    // it exists with other arguments
	ReasonExchangeMismatch = "exchange_mismatch" // the same
	ReasonQueueLocked      = "queue_locked"
	ReasonUnsupported      = "unsupported" // by this broker version
)

// Fault names what was being done when err came, and gives it its cause. The broker's own
// refusals become configuration errors with their cure, which names the command of
// [DefaultNames]; everything else (a lost connection, a broker that is starting) stays
// transient.
func Fault(doing string, err error) error { return Names{}.Fault(doing, err) }

// Fault is [Fault] with the command that sets these names up as the cure.
func (n Names) Fault(doing string, err error) error {
	err = fmt.Errorf("rabbitmq: %s: %w", doing, err)
	refusal, ok := errors.AsType[*amqp.Error](err)
	if ok && strings.HasPrefix(refusal.Reason, "remote error: tls:") { // all that the library keeps of it
		return causes.Explain(causes.RabbitMQ, causes.Handshake, err)
	}
	if ok && refusal.Reason == ErrSilent.Error() {
		return causes.Explain(causes.RabbitMQ, causes.NoAnswer, err)
	}
	if !ok || !refusal.Server && !refused(refusal) {
		return causes.Known(causes.RabbitMQ, err)
	}
	if id := causeOf(refusal); id != "" {
		return Refused(causes.RabbitMQ, id, err)
	}
	reason, cure := n.cureOf(refusal)
	if reason == "" {
		return err
	}
	return engine.ConfigurationError(reason, fmt.Errorf("%w; %s", err, cure))
}

// refused reports whether the library concluded a refusal from a socket the
// broker closed during the handshake. See [Dialer.Dial] for when that is so.
func refused(e *amqp.Error) bool {
	return e == amqp.ErrCredentials || e == amqp.ErrVhost || e == amqp.ErrSASL
}

// reasonOf has the reasons of causes that had one before there was a table.
var reasonOf = map[causes.ID]string{
	causes.Credentials: ReasonAccessRefused, causes.Certificate: ReasonAccessRefused, causes.Rights: ReasonAccessRefused, causes.Missing: ReasonVHostRefused,
}

// causeOf returns what the broker refuses everything for, "" where it is about a queue or
// an exchange. One code stands for several causes: the broker's words tell which.
func causeOf(e *amqp.Error) causes.ID {
	says := func(words string) bool { return strings.Contains(e.Reason, words) }
	switch {
	case e == amqp.ErrCredentials, e == amqp.ErrSASL, e.Code == amqp.AccessRefused && says("Login was refused"):
		return causes.Credentials
	case e == amqp.ErrVhost:
		return causes.Missing
	case e.Code == amqp.NotAllowed && says("connection limit"):
		return causes.Connections
	case e.Code == amqp.NotAllowed && (says("channel limit") || says("channel_max") || says("number of channels")):
		return causes.Channels
	case e.Code == amqp.NotAllowed:
		return causes.Missing
	case e.Code == amqp.AccessRefused:
		return causes.Rights
	case e.Code == amqp.ConnectionForced:
		return causes.Stopping
	default:
		return ""
	}
}

func (n Names) cureOf(e *amqp.Error) (reason, cure string) {
	switch {
	case e.Code == amqp.NotFound:
		return ReasonQueueMissing, "run " + n.SetupCommand().String()
	case e.Code == amqp.PreconditionFailed && strings.Contains(e.Reason, "for exchange"):
		return ReasonExchangeMismatch, "keyfold has not declared it so: see what uses it (rabbitmqctl list_exchanges, list_bindings), " +
			"delete it (rabbitmqadmin delete exchange name=...) and run " + n.SetupCommand().String() + " again"
	case e.Code == amqp.PreconditionFailed:
		return ReasonQueueMismatch, fmt.Sprintf("it exists with other arguments: set %s and %s to what it is; ", queueTypeSetting, prioritiesSetting) +
			"a queue made by hand or by an earlier version has to be replaced: stop what publishes to it, have it emptied " +
			"(by workers of the earlier version, or by a shovel), delete it (rabbitmqctl delete_queue) and run " + n.SetupCommand().String() + " again"
	case e.Code == amqp.ResourceLocked:
		return ReasonQueueLocked, "another connection holds it exclusively: stop that consumer"
	case e.Code == amqp.NotImplemented:
		return ReasonUnsupported, "this broker cannot do it: RabbitMQ 3.10 or newer with all stable feature flags " +
			"is needed (rabbitmqctl enable_feature_flag all)"
	default:
		return "", ""
	}
}
