package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"keyfold/engine/causes"
)

// plainError is an error of the driver in words for people. The driver's own, with
// its description of all servers, stays in the chain.
type plainError struct {
	text  string
	cause error
}

func (e plainError) Error() string { return e.text }

func (e plainError) Unwrap() error { return e.cause }

// plainly returns err in plain words where the driver could not reach a server:
// "connection refused at 127.0.0.1:27017".
func plainly(err error) error {
	if unselected, ok := errors.AsType[topology.ServerSelectionError](err); ok {
		return plainError{text: unreachable(unselected.Desc), cause: err}
	}
	if lost, ok := errors.AsType[topology.ConnectionError](err); ok && lost.Wrapped != nil {
		address, _, _ := strings.Cut(lost.ConnectionID, "[")
		return plainError{text: faultAt(address, err), cause: err}
	}
	return err
}

// unreachable says why none of the servers takes the operation.
func unreachable(servers description.Topology) string {
	var faults []string
	var others []string // that answer, and are no primary
	for _, server := range servers.Servers {
		switch {
		case server.Kind != description.Unknown:
			others = append(others, server.Addr.String())
		case server.LastError != nil:
			faults = append(faults, faultAt(server.Addr.String(), server.LastError))
		default:
			faults = append(faults, "no answer from "+server.Addr.String())
		}
	}
	if len(others) > 0 {
		faults = append(faults, "no primary among "+strings.Join(others, ", "))
	}
	if len(faults) == 0 && servers.SetName != "" {
		return fmt.Sprintf("no server is in the replica set %s that %s names: leave replicaSet out for a server that stands alone, or correct its name",
			servers.SetName, uriSetting)
	}
	if len(faults) == 0 {
		return "no server is known"
	}
	slices.Sort(faults)
	return strings.Join(slices.Compact(faults), ", ")
}

// unselectedCause returns what keeps all servers from taking the operation: the cause that
// they have in common, "" where there is none.
func unselectedCause(servers description.Topology) (id causes.ID) {
	for i, server := range servers.Servers {
		of := causes.Find(server.LastError)
		switch {
		case server.Kind != description.Unknown:
			of = causes.ReadOnly // it answers, and is no primary
		case server.LastError == nil:
			of = causes.NoAnswer
		}
		if i > 0 && of != id {
			return ""
		}
		id = of
	}
	return id
}

// faultAt says in a few words what kept a server from answering.
func faultAt(address string, err error) string {
	var timeout net.Error
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("%s: %s", cmp.Or(name.Name, address), name.Err)
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return fmt.Sprintf("%v at %s", number, address)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time from " + address
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed by " + address
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return fmt.Sprintf("%v at %s", err, address)
}
