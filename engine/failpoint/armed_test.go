//go:build failpoints

package failpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

func TestPointsAct(t *testing.T) {
	p, err := parse("before_ack=error:2/3; delivered=exit:2;after_swap=sleep(1ns)")
	must.OK(t, err)
	exits := 0
	p.exit, p.log = func() { exits++ }, filepath.Join(t.TempDir(), "log")
	var failed []int
	for i := range 9 {
		if err := p.hit(BeforeAck); err != nil {
			if !errors.Is(err, ErrInjected) {
				t.Error(err)
			}
			failed = append(failed, i+1)
		}
		_, _ = p.hit(Delivered), p.hit(AfterSwap)
		if err := p.hit(Windowed); err != nil {
			t.Errorf("a point that is not armed: %v", err)
		}
	}
	if len(failed) != 3 || failed[0] != 2 || failed[1] != 5 || failed[2] != 8 || exits != 1 {
		t.Errorf("failed at %v, %d exits; want 2, 5, 8 and 1", failed, exits)
	}
	log, err := os.ReadFile(p.log)
	must.OK(t, err)
	if got, want := string(log), "after_swap sleep\nbefore_ack error\ndelivered exit\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		"nowhere=exit", "before_ack", "before_ack=explode", "before_ack=exit:0", "before_ack=exit:x",
		"before_ack=error:1/0", "before_ack=sleep", "before_ack=sleep(-1s)", "closing=error:1",
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	p, err := parse("")
	if err != nil || len(p.armed) != 0 {
		t.Errorf("nothing armed: %v, %v", p, err)
	}
	if p, err = parse("windowed=sleep(20ms):7"); err != nil || p.armed[Windowed].pause != 20*time.Millisecond || p.armed[Windowed].at != 7 {
		t.Errorf("%+v, %v", p.armed[Windowed], err)
	}
	if !strings.Contains(strings.Join(Names, " "), Closing) {
		t.Error("a point is not listed")
	}
}
