package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// Reasons of the errors this ledger marks.
const (
	ReasonAddress   = "ledger_address"
	ReasonLogin     = "ledger_login"
	ReasonRights    = "ledger_rights"
	ReasonNotSetUp  = "ledger_not_set_up"
	ReasonSchema    = "ledger_schema"
	ReasonVersion   = "ledger_version"
	ReasonPartition = "ledger_partition_missing"
	ReasonRejected  = "record_rejected"
	ReasonCorrupt   = "ledger_corrupt"
)

// Codes of the server's errors.
// Source: PostgreSQL's src/backend/utils/errcodes.txt; codeRaced is notify_commit's,
// codeErased that of a user who was erased and would be made again.
const (
	codeCheck         = "23514"
	codeCanceled      = "57014"
	codeLocked        = "55P03"
	codeReadOnly      = "25006"
	codeNoDatabase    = "3D000"
	codeNoRight       = "42501"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeRaced         = "KF001"
	codeErased        = "KF003"
)

// codesOfAbsence: a table, function, column, type or schema is missing.
var codesOfAbsence = []string{"42P01", "42883", "42703", "42704", "3F000"}

// codeOf returns the code of the server's error, "" where the server gave none.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// class returns the first two characters of a code.
func class(code string) string { return code[:min(2, len(code))] }

// lacksPartition reports whether a row was refused because its day has no partition.
// The server has no code of its own for it: no constraint is named.
func lacksPartition(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == codeCheck && e.ConstraintName == ""
}

// mark gives an error its kind. What is not listed may pass and stays transient.
// doing says what was under way.
func mark(ctx context.Context, doing string, err error) error {
	code := codeOf(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && (code == codeCanceled || code == ""):
		err = fmt.Errorf("PostgreSQL: %s: %w", doing, errors.Join(context.Cause(ctx), ctx.Err()))
		if errors.Is(err, engine.ErrAway) { // it is this call's time that is over
			err = causes.Explain(causes.Ledger, causes.NoAnswer, err)
		}
		return err
	case lacksPartition(err):
		return engine.ConfigurationError(ReasonPartition, fmt.Errorf(
			"notify_decisions has no partition for the day of a decision (%s): run %s, which makes them ahead: %w", doing, retentionCommand, err))
	case slices.Contains(codesOfAbsence, code):
		return engine.ConfigurationError(ReasonNotSetUp, fmt.Errorf(
			"the tables of this version are not there (%s): run %s: %w", doing, setupCommand, err))
	case code == codeLocked:
		return fmt.Errorf("PostgreSQL: %s: another session keeps a lock: see pg_stat_activity for one that is idle in transaction: %w", doing, err)
	case slices.Contains([]string{"22", "23", "54"}, class(code)):
		return engine.PermanentError(ReasonRejected, fmt.Errorf("PostgreSQL rejected the row (%s): %w", doing, err))
	default:
		return explain(doing, err)
	}
}

// causesOf has the causes of codes, and of their classes, which are the first two characters.
var causesOf = map[string]causes.ID{
	"28": causes.Credentials, codeNoDatabase: causes.Missing, codeNoRight: causes.Rights, codeReadOnly: causes.ReadOnly,
	"53300": causes.Connections, "53100": causes.Disk, "53200": causes.Memory,
	"57P01": causes.Stopping, "57P02": causes.Stopping, "57P03": causes.Stopping,
}

// reasonsOf are the reasons of causes that are configuration faults.
var reasonsOf = map[causes.ID]string{
	causes.Credentials: ReasonLogin, causes.Missing: ReasonAddress, causes.Rights: ReasonRights,
}

// causeOf returns the cause of an error, "" where none is known.
func causeOf(err error) causes.ID {
	code := codeOf(err)
	if id := cmp.Or(causesOf[code], causesOf[class(code)]); id != "" || code != "" {
		return id
	}
	if strings.HasSuffix(err.Error(), noTLS) {
		return causes.NoTLS
	}
	return causes.Find(err)
}

// noTLS is how pgx ends a connection to a server without TLS. It has no type for it.
const noTLS = "server refused TLS connection"

// explain gives an error its cause and kind. What ends or holds the server's work is away.
func explain(doing string, err error) error {
	id := causeOf(err)
	err = fmt.Errorf("PostgreSQL: %s: %w", doing, err)
	if !id.Lasts() && (id == causes.ReadOnly || away(err)) {
		err = fmt.Errorf("%w: %w", engine.ErrAway, err)
	}
	if id == "" {
		return err
	}
	err = causes.Explain(causes.Ledger, id, err)
	if reason := reasonsOf[id]; reason != "" {
		return engine.ConfigurationError(reason, err)
	}
	return err
}

// away reports whether the server could not be reached, or takes no calls for now: it
// is ending or starting, or is out of connections, memory or disk.
func away(err error) bool { return silent(err) || class(codeOf(err)) == "53" }

// silent reports whether the server gave no answer, or ended while it gave one.
func silent(err error) bool {
	code := codeOf(err)
	return code == "" || class(code) == "08" || class(code) == "57" && code != codeCanceled
}

// unknown reports whether a call that failed may have been carried out.
func unknown(err error) bool { return silent(err) && !pgconn.SafeToRetry(err) }

// damaged returns a configuration fault: the row was not written by this ledger.
func damaged(subject string, err error) error {
	return engine.ConfigurationError(ReasonCorrupt, fmt.Errorf("%s is damaged: restore the database from a backup: %w", subject, err))
}
