package lint

import (
	"os/exec"
	"testing"
)

func TestVetHasNothingToSay(t *testing.T) { runTool(t, "vet", "./...") }

// The version of staticcheck is the one in go.mod, so this needs nothing installed.
func TestStaticcheckHasNothingToSay(t *testing.T) { runTool(t, "tool", "staticcheck", "./...") }

// runTool runs the go command on the whole module. Its verdict does not depend on the race detector, so a -race run leaves it out.
func runTool(t *testing.T, args ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the whole module: skipped with -short")
	}
	if raceEnabled {
		t.Skip("says nothing new under -race")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go %v: %v\n%s", args, err, out)
	}
}
