package rabbit

import (
	"fmt"
	"os"
	"runtime/debug"
)

// Identity is what connections, consumers and dead letters are named after.
type Identity struct {
	Role    string // "worker", "relay", ...
	Host    string
	PID     int
	Version string
}

// ThisProcess returns the identity of the running process in a role.
func ThisProcess(role string) Identity {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return Identity{Role: role, Host: host, PID: os.Getpid(), Version: version}
}

// connection returns the name operators see in the broker's list.
func (i Identity) connection(purpose string) string {
	return fmt.Sprintf("keyfold %s %s %s:%d %s", i.Role, purpose, i.Host, i.PID, i.Version)
}

// maxTag is the protocol's limit of a short string.
const maxTag = 255

// tag returns the tag of the n-th consumer on a channel of a generation.
func (i Identity) tag(generation uint64, channel, n int) string {
	end := fmt.Sprintf(":%d %s %d.%d.%d", i.PID, i.Version, generation, channel, n)
	start := "keyfold " + i.Role + " " + i.Host
	return start[:max(0, min(len(start), maxTag-len(end)))] + end[:min(len(end), maxTag)]
}
