//go:build !race

package notifysim

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"keyfold/engine/failpoint"
)

// TestEveryNotificationFailpoint runs schedules with every failpoint of notifications
// armed, in a program that is built to fail ([TestArmed]).
//
// Promise(notify/killed-before-commit): A worker killed before its commit leaves no trace; the event
// comes again and is decided.
// Promise(proof/notify-failpoints): Armed failpoints and kills at each of them, 50 times, break no
// law.
// Figure: 8 of 8 failpoints
// Promise(notify/killed-before-dispatch)
func TestEveryNotificationFailpoint(t *testing.T) {
	var points []string
	for i, name := range failpoint.NotificationNames {
		action := "error"
		if !failpoint.TakesErrors(name) {
			action = "sleep(1ms)"
		}
		points = append(points, fmt.Sprintf("%s=%s:1/%d", name, action, 5+i))
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-tags=failpoints", "-count=1", "-v", "-vet=off", "-run=^TestArmed$", ".")
	command.Env = append(os.Environ(), "KEYFOLD_FAILPOINTS="+strings.Join(points, ";"))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "acted: ") {
		t.Fatalf("no schedule was run:\n%s", out)
	}
	t.Logf("%s", out)
}
