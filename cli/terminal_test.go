package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a pseudo-terminal: what types, and what a program has as its standard input.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keyboard, terminal
}

func TestATokenIsNotShownWhileItIsTyped(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	prompt, promptTo := io.Pipe()
	var out bytes.Buffer
	a := &app{in: terminal, out: &out, err: promptTo}
	ended := make(chan int, 1)
	go func() {
		code := a.run([]string{"hash-token"})
		promptTo.Close()
		ended <- code
	}()
	if _, err := io.ReadFull(prompt, make([]byte, len("Token: "))); err != nil { // the echo is off by now
		t.Fatal(err)
	}
	if _, err := keyboard.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(prompt); err != nil || len(rest) > 0 {
		t.Errorf("on standard error: %q, %v", rest, err)
	}
	if code := <-ended; code != exitDone || out.String() != "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n" {
		t.Errorf("exit code %d, output %q", code, out.String())
	}
	// What is typed now is shown again; before it stands only the line break.
	if _, err := keyboard.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	var shown []byte
	buf := make([]byte, 100)
	for !bytes.HasSuffix(shown, []byte("x")) {
		n, err := keyboard.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, buf[:n]...)
	}
	if string(shown) != "\r\nx" {
		t.Errorf("the terminal showed %q", shown)
	}
}
