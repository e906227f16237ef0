package rabbittest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"keyfold/internal/testserver/process"
)

// serveVariable names the socket at which a run of many test binaries has brokers that they
// share: each of its own would cost them five seconds of processor time.
const serveVariable = "KEYFOLD_TEST_BROKERS"

// A Service starts brokers when the first test binary asks for one, and ends them with
// itself, at the latest with its process.
type Service struct {
	dir    string
	socket net.Listener
	kinds  map[string]func() (*Broker, error)
	asked  sync.WaitGroup

	mu      sync.Mutex
	brokers []*Broker
}

// location is what a test binary has to know of a broker.
type location struct {
	Dir   string
	Port  int
	Error string
}

// Serve begins a service, all of its files in a new folder in dir.
func Serve(dir string) (*Service, error) {
	dir, err := os.MkdirTemp(dir, "keyfold-test-")
	if err != nil {
		return nil, err
	}
	s := &Service{dir: dir, kinds: map[string]func() (*Broker, error){}}
	for kind, launch := range map[string]func(string) (*Broker, error){
		"shared": launchShared, "streams 3": launchStreams(3, nil, true), "streams 4": launchStreams(4, nil, true),
	} {
		s.kinds[kind] = sync.OnceValues(func() (*Broker, error) {
			return s.launch(filepath.Join(dir, strings.ReplaceAll(kind, " ", "")), launch)
		})
	}
	if s.socket, err = net.Listen("unix", filepath.Join(dir, "ask")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.asked.Go(s.serve)
	return s, nil
}

// Variable is what test binaries need in their environment to use the service.
func (s *Service) Variable() string { return serveVariable + "=" + s.socket.Addr().String() }

func (s *Service) launch(dir string, launch func(string) (*Broker, error)) (*Broker, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	b, err := launch(dir)
	if err == nil {
		s.mu.Lock()
		s.brokers = append(s.brokers, b)
		s.mu.Unlock()
	}
	return b, err
}

func (s *Service) serve() {
	for {
		conn, err := s.socket.Accept()
		if err != nil {
			return // it is closed
		}
		s.asked.Go(func() {
			defer conn.Close()
			_ = json.NewEncoder(conn).Encode(s.answer(conn)) // who asks may have ended
		})
	}
}

// answer reads which kind of broker is asked for, and says where it is.
func (s *Service) answer(conn net.Conn) location {
	var kind string
	if err := json.NewDecoder(conn).Decode(&kind); err != nil || s.kinds[kind] == nil {
		return location{Error: fmt.Sprintf("asked for a broker %q: %v", kind, err)}
	}
	b, err := s.kinds[kind]()
	if err != nil {
		return location{Error: err.Error()}
	}
	return location{Dir: b.Dir, Port: b.Ports.Port(amqpPort)}
}

// Stop ends the brokers and removes their files. It is called after the test binaries' end.
func (s *Service) Stop() {
	s.socket.Close()
	s.asked.Wait()
	for _, b := range s.brokers {
		b.Stop()
	}
	os.RemoveAll(s.dir)
}

// served returns what launches a broker, or where a service runs, gets it from there.
func served(kind string, look func() (installation, error), launch func(dir string) (*Broker, error)) func(dir string) (*Broker, error) {
	return func(dir string) (*Broker, error) {
		socket := os.Getenv(serveVariable)
		if socket == "" {
			return launch(dir)
		}
		at, err := ask(socket, kind)
		if err != nil {
			return nil, err
		}
		in, err := look()
		if err != nil {
			return nil, err
		}
		b := &Broker{installation: in, Server: process.Server{Dir: at.Dir, Ports: process.ClaimedElsewhere(at.Port), Elsewhere: true}}
		b.name(options{})
		return b, nil
	}
}

// ask asks a service where a broker is.
func ask(socket, kind string) (at location, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return at, err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(kind); err != nil {
		return at, err
	}
	if err := json.NewDecoder(conn).Decode(&at); err != nil {
		return at, fmt.Errorf("the run's brokers: %w", err)
	}
	if at.Error != "" {
		return at, errors.New(at.Error)
	}
	return at, nil
}
