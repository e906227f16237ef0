package mongodb

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/address"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"keyfold/engine"
)

// A server that is not there is told of in a few words, without the driver's
// description of all servers.
func TestErrorsAreInPlainWords(t *testing.T) {
	const at = address.Address("127.0.0.1:27017")
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	server := func(err error) description.Server { return description.Server{Addr: at, LastError: err} }
	unselected := func(servers ...description.Server) error {
		return topology.ServerSelectionError{Wrapped: context.DeadlineExceeded, Desc: description.Topology{Servers: servers}}
	}
	lost := func(err error) error {
		return topology.ConnectionError{ConnectionID: "127.0.0.1:27017[-7]", Wrapped: err}
	}
	for want, err := range map[string]error{
		"connection refused at 127.0.0.1:27017":                            unselected(server(lost(refused))),
		"no answer in time from 127.0.0.1:27017":                           unselected(server(lost(context.DeadlineExceeded))),
		"no answer from 127.0.0.1:27017":                                   unselected(server(nil)),
		"connection closed by 127.0.0.1:27017":                             unselected(server(lost(io.EOF)), server(lost(io.EOF))),
		"mongo.shop: no such host":                                         unselected(server(lost(&net.DNSError{Name: "mongo.shop", Err: "no such host"}))),
		"connection refused at 127.0.0.1:27017, no primary among h:27018":  unselected(server(refused), description.Server{Addr: "h:27018", Kind: description.ServerKindRSSecondary}),
		"no server is known":                                               unselected(),
		"connection reset by peer at 127.0.0.1:27017":                      lost(os.NewSyscallError("read", syscall.ECONNRESET)),
		"x509: certificate signed by unknown authority at 127.0.0.1:27017": lost(x509.UnknownAuthorityError{}),
	} {
		got := mark("read", err)
		lasting := strings.HasPrefix(want, "x509:")
		if !strings.Contains(got.Error(), "MongoDB: read: "+want) || (engine.KindOf(got) == engine.Configuration) != lasting {
			t.Errorf("%v, want %q", got, want)
		}
	}
	if err := unselected(server(lost(refused))); !errors.Is(mark("read", err), context.DeadlineExceeded) {
		t.Error("the driver's error is not in the chain")
	}
	if err := errors.New("odd"); !strings.HasSuffix(fmt.Sprint(mark("read", err)), ": odd") {
		t.Error(mark("read", err))
	}
}
