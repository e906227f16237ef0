package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// At the limit of open files each line of the log is of its format, and one says what to raise.
//
// Promise(shutdown/open-files): At the limit of open files, and for faults that libraries print, each
// line has its format, alike ones are one a minute, the cure named.
func TestLinesAtTheLimitOfOpenFiles(t *testing.T) {
	s := newShop(t, outbox.MariaDB)
	for _, args := range [][]string{{"work"}, {"ingest", "--relay", "--http-addr=127.0.0.1:0"}} {
		t.Run(args[0], func(t *testing.T) {
			p := s.command(t)
			p.command.Args = append(p.command.Args[:1], append(args, s.flags("--database-url="+s.url)...)...)
			p.command.Stderr = p.log
			p.start()
			p.ready()
			address := adminAddr.FindStringSubmatch(p.log.String())[1]
			const limit = "12"
			if out, err := exec.CommandContext(t.Context(), "prlimit", fmt.Sprint("--pid=", p.command.Process.Pid), "--nofile="+limit+":"+limit).CombinedOutput(); err != nil {
				t.Fatalf("prlimit: %v %s", err, out)
			}
			for range 12 { // the process has files above the limit: none of these is accepted
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
				must.OK(t, err)
				defer conn.Close()
			}
			eventually(t, "the log says that no file is left", func() error {
				if !strings.Contains(p.log.String(), "too many open files") {
					return errors.New("not yet")
				}
				return nil
			})
			if !strings.Contains(p.log.String(), "LimitNOFILE") {
				t.Errorf("the cure is not named:\n%s", p.log)
			}
			for line := range strings.Lines(p.log.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("a raw line: %s", line)
				}
			}
		})
	}
}
