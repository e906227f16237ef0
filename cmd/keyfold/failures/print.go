package failures

import (
	"fmt"

	"keyfold/cmd/keyfold/app"
	"keyfold/service/failed"
	"keyfold/source/rabbit/deadletter"
)

// foreign is the reason shown for what is no letter of keyfold's.
const foreign = "not_a_letter"

func reasonOf(l *deadletter.Letter) string {
	switch {
	case l.Reason != "":
		return l.Reason
	case l.Original == nil:
		return foreign
	default:
		return "unknown"
	}
}

// viewOf is a letter as commands print it and pages show it.
func viewOf(where string, l *deadletter.Letter) *failed.Letter {
	v := &failed.Letter{
		Where: where, ID: l.ID, User: l.User, NumericUser: l.NumericUser, Type: l.Kind, Reason: reasonOf(l), Retries: l.Retries, Errors: l.Errors,
		FirstFailure: l.FirstFailure, LastFailure: l.LastFailure, Host: l.Host, FirstSeen: l.FirstSeen,
		Headers: make(map[string]string, len(l.Headers)), Body: l.Original, Foreign: l.Original == nil,
	}
	if v.Foreign {
		v.Body = l.Body
	}
	if l.Fault != nil {
		v.Fault = l.Fault.Error()
	}
	for name, value := range l.Headers {
		v.Headers[name] = fmt.Sprint(value)
	}
	return v
}

func printLetters(a *app.App, where string, all []*deadletter.Letter) error {
	for _, l := range all {
		v := viewOf(where, l)
		if err := a.Emit(v.Whole(), v.Print); err != nil {
			return err
		}
	}
	return nil
}
