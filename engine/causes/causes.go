// Package causes has the table of what keeps keyfold from using a server: for each cause one
// sentence, one cure and one section of docs/RUNBOOK.md. Start-up, log, `keyfold status` and
// /readyz show the same text, because it is the text of the error.
//
// [Find] knows the errors of the standard library. Each driver's room adds what only its
// driver knows, and calls [Explain].
package causes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"keyfold/engine"
)

// Server is a server as people know it, and the setting that has its address.
type Server struct{ Name, Setting string }

// Servers that keyfold uses.
var (
	RabbitMQ     = Server{"RabbitMQ", "RABBITMQ_DSN"}
	Streams      = Server{"RabbitMQ's streams", "RABBITMQ_STREAM_URI"}
	Management   = Server{"RabbitMQ's management", "RABBITMQ_MANAGEMENT_URL"}
	MongoDB      = Server{"MongoDB", "MONGODB_URI"}
	MariaDB      = Server{"MariaDB or MySQL", "DATABASE_URL"}
	PostgreSQL   = Server{"PostgreSQL", "DATABASE_URL"}
	SQLite       = Server{"SQLite", "DATABASE_URL"}
	Database     = Server{"the database", "DATABASE_URL"} // where it is not known which
	Ledger       = Server{"PostgreSQL", "NOTIFY_DATABASE_URL"}
	Redis        = Server{"Redis", "REDIS_URL"}
	Repeats      = Server{"Redis", "NOTIFY_REDIS_URL"}
	EmbeddingAPI = Server{"the embedding API", "OPENAI_BASE_URL"}
)

// Error is an error whose cause is known. Its text has the sentence, the cure, the error
// itself and the page.
type Error struct {
	ID     ID
	Server Server
	Said   string // by the server, where the sentence quotes it
	Err    error
}

// Error returns "sentence; cure (error) [page]".
func (e *Error) Error() string {
	return fmt.Sprintf("%s; %s (%v) [%s]", e.Sentence(), e.Cure(), e.Err, e.Page())
}

// Unwrap returns the error itself.
func (e *Error) Unwrap() error { return e.Err }

// Sentence says what is wrong.
func (e *Error) Sentence() string { return e.fill(rowOf(e.ID).sentence) }

// Cure says what to do.
func (e *Error) Cure() string {
	row := rowOf(e.ID)
	return e.fill(cmp.Or(row.cures[e.Server.Name], row.cure))
}

// Page is where the docs say more.
func (e *Error) Page() string { return runbook + string(e.ID) }

const runbook = "docs/RUNBOOK.md#"

func (e *Error) fill(text string) string {
	return strings.NewReplacer("{server}", e.Server.Name, "{setting}", e.Server.Setting, "{said}", e.Said).Replace(text)
}

// Explain gives an error its cause. A lasting one is a configuration fault, and all others
// are transient; the reason is the cause's.
func Explain(server Server, id ID, err error) error {
	return mark(&Error{ID: id, Server: server, Err: err})
}

// Blocked is [Explain] for an alarm of RabbitMQ: reason is what RabbitMQ said.
func Blocked(reason string, err error) error {
	return mark(&Error{ID: Alarm, Server: RabbitMQ, Said: cmp.Or(reason, "it gave no reason"), Err: err})
}

func mark(e *Error) error {
	kind := engine.Transient
	if e.ID.Lasts() {
		kind = engine.Configuration
	}
	return &engine.Error{Kind: kind, Reason: e.ID.Reason(), Err: e}
}

// Known explains an error of a driver whose cause [Find] knows, and leaves others alone.
func Known(server Server, err error) error {
	if id := Find(err); id != "" && !explained(err) {
		return Explain(server, id, err)
	}
	return err
}

// Ensure explains an error that is shown to a person and has no cure yet.
func Ensure(server Server, err error) error {
	if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, context.Canceled) || explained(err) {
		return err
	}
	return Explain(server, cmp.Or(Find(err), Other), err)
}

func explained(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Named has an explained error name another setting: the one that the address came from.
func Named(setting string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Server.Setting = setting
	}
	return err
}

// Hint is the hint of a log line about err: the cure and its page, then what happens by itself.
func Hint(err error, then string) string {
	e, known := errors.AsType[*Error](err)
	switch {
	case known:
		return fmt.Sprintf("%s; %s [%s]", e.Cure(), then, e.Page())
	case engine.KindOf(err) == engine.Configuration:
		return "do what the error says; " + then
	default:
		return "see what the error says, and that the server it names runs; " + then
	}
}

// Cut takes the first page out of a text, and returns its section; "" where there is none.
func Cut(text string) (rest, section string) {
	before, after, found := strings.Cut(text, " ["+runbook)
	section, after, closed := strings.Cut(after, "]")
	if !found || !closed {
		return text, ""
	}
	return before + after, section
}
