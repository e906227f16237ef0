package rabbit

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
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

// Fault names what was being done when err came. The broker's own refusals
// become configuration errors with their cure, which names the command of
// [DefaultNames]; everything else (a lost connection, a broker that is starting) stays
// transient.
func Fault(doing string, err error) error { return Names{}.Fault(doing, err) }

// Fault is [Fault] with the command that sets these names up as the cure.
func (n Names) Fault(doing string, err error) error {
	err = fmt.Errorf("rabbitmq: %s: %w", doing, err)
	refusal, ok := errors.AsType[*amqp.Error](err)
	if !ok || !refusal.Server && !refused(refusal) {
		return err
	}
	reason, cure := n.cureOf(refusal)
	if reason == "" {
		return err
	}
	return engine.ConfigurationError(reason, fmt.Errorf("%w; %s", err, cure))
}

// refused reports whether the library concluded a refusal from a socket the
// broker closed during the handshake. See [dialer.dial] for when that is so.
func refused(e *amqp.Error) bool {
	return e == amqp.ErrCredentials || e == amqp.ErrVhost || e == amqp.ErrSASL
}

func (n Names) cureOf(e *amqp.Error) (reason, cure string) {
	switch {
	case e == amqp.ErrVhost || e.Code == amqp.NotAllowed:
		return ReasonVHostRefused, "check the virtual host in RABBITMQ_DSN (/ is written %2F), " +
			"the user's permissions (rabbitmqctl set_permissions) and the connection limits"
	case e == amqp.ErrCredentials:
		return ReasonAccessRefused, "the broker closed the connection as it does for a wrong user or password: check them " +
			"in RABBITMQ_DSN"
	case e.Code == amqp.AccessRefused:
		return ReasonAccessRefused, "check user and password in RABBITMQ_DSN and the user's permissions " +
			"(rabbitmqctl set_permissions)"
	case e.Code == amqp.NotFound:
		return ReasonQueueMissing, "run " + n.setupCommand()
	case e.Code == amqp.PreconditionFailed && strings.Contains(e.Reason, "for exchange"):
		return ReasonExchangeMismatch, "keyfold has not declared it so: see what uses it (rabbitmqctl list_exchanges, list_bindings), " +
			"delete it (rabbitmqadmin delete exchange name=...) and run " + n.setupCommand() + " again"
	case e.Code == amqp.PreconditionFailed:
		return ReasonQueueMismatch, "it exists with other arguments: set RABBITMQ_QUEUE_TYPE and RABBITMQ_PRIORITIES to what it is; " +
			"a queue made by hand or by an earlier version has to be replaced: stop what publishes to it, have it emptied " +
			"(by workers of the earlier version, or by a shovel), delete it (rabbitmqctl delete_queue) and run " + n.setupCommand() + " again"
	case e.Code == amqp.ResourceLocked:
		return ReasonQueueLocked, "another connection holds it exclusively: stop that consumer"
	case e.Code == amqp.NotImplemented:
		return ReasonUnsupported, "this broker cannot do it: RabbitMQ 3.10 or newer with all stable feature flags " +
			"is needed (rabbitmqctl enable_feature_flag all)"
	default:
		return "", ""
	}
}
