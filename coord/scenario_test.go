package coord

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/codec"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios give now into testdata/*.txt")

// TestScenarios runs testdata/*.txt. A file is blocks of commands, a line of
// dashes, and the effects they are to have. Empty lines separate blocks, # begins a comment line.
//
//	manual | auto            commit records and open groups on command, or at once (the default)
//	lead TERM | follow
//	declare CONN NAME [COUNT] | delete CONN NAME [COUNT]
//	commit | fail CODE       the record that was proposed
//	sub CONN TOPIC GROUP [latest] [nocreate]
//	opened [CODE]            the oldest OpenGroup
//	ack NOTICE [ok|stale|error] [FIELD=VALUE]...   fields: conn kind group membership assignment epoch (+N adds)
//	confirm MEMBER...        OK to all that the member has not answered
//	beat CONN SUB MEMBER MEMBERSHIP/ASSIGNMENT [leave]
//	leave MEMBER             as if the numbers had been checked
//	drop CONN
//	pass DURATION [MEMBER...]   time, then a Tick; only the members named were seen since
//
// Members and notices are written as TERM.COUNTER, as in the output.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScenario(t, file) })
	}
}

func runScenario(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := started(t, Config{MaxMembers: 3, MaxSubscriptions: 3})
	var out []string
	blocks := 0
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		input, want, found := strings.Cut(block, "\n----")
		if !found && !onlyComments(block) {
			t.Fatalf("%s: a block without dashes:\n%s", file, block)
		}
		if !found {
			out = append(out, block)
			continue
		}
		blocks++
		want = strings.TrimPrefix(want, "\n")
		r.what = fmt.Sprintf("%s, block %d:\n%s\n", file, blocks, input)
		r.lines, r.record = nil, true
		for line := range strings.SplitSeq(input, "\n") {
			if !strings.HasPrefix(line, "#") && line != "" {
				r.command(strings.Fields(line))
			}
		}
		got := strings.Join(r.lines, "\n")
		if got != want && !*rewrite {
			t.Errorf("%sgave\n%s\nwant\n%s", r.what, got, want)
		}
		out = append(out, strings.TrimSuffix(input+"\n----\n"+got, "\n"))
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func onlyComments(block string) bool {
	for line := range strings.SplitSeq(block, "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

func (r *rig) command(f []string) {
	r.t.Helper()
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	has := func(word string) bool {
		for _, x := range f {
			if x == word {
				return true
			}
		}
		return false
	}
	switch f[0] {
	case "manual", "auto":
		r.auto = f[0] == "auto"
	case "lead":
		r.lead(r.uint(arg(1)))
	case "follow":
		r.took(r.core.Follow())
	case "declare":
		r.declare(r.uint(arg(1)), arg(2), uint16(r.uint("0"+arg(3))), 0)
	case "delete":
		r.declare(r.uint(arg(1)), arg(2), uint16(r.uint("0"+arg(3))), codec.DeclareDelete)
	case "commit":
		r.commit()
	case "fail":
		r.proposal = nil
		r.step(ProposalFailed{Code: codec.Code(r.uint(arg(1)))})
	case "sub":
		req := codec.Sub{TopicID: codec.TopicID(r.uint(arg(2))), Group: []byte(arg(3)), CreditCount: 7, CreditBytes: 9}
		if has("latest") {
			req.StartPolicy = codec.StartLatest
		}
		if has("nocreate") {
			req.Flags = codec.SubNoCreate
		}
		r.sub(r.uint(arg(1)), req)
	case "opened":
		if code := arg(1); code != "" {
			r.opening[0].Code = codec.Code(r.uint(code))
		}
		r.opened(0)
	case "ack":
		r.ackCommand(f[1:])
	case "confirm":
		for _, name := range f[1:] {
			r.confirmAll(codec.MemberID(r.dotted(name)))
		}
	case "beat":
		r.beatCommand(f)
	case "leave":
		r.leave(codec.MemberID(r.dotted(arg(1))))
	case "drop":
		r.step(Disconnect{r.uint(arg(1))})
	case "pass":
		r.passCommand(f)
	default:
		r.fail("unknown command %q", f)
	}
}

func (r *rig) beatCommand(f []string) {
	r.t.Helper()
	membership, assignment, _ := strings.Cut(f[4], "/")
	req := codec.Heartbeat{
		SubscriptionID: codec.SubscriptionID(r.uint(f[2])), MemberID: codec.MemberID(r.dotted(f[3])),
		MembershipEpoch: uint32(r.uint(membership)), AssignmentEpoch: uint32(r.uint(assignment)),
	}
	if len(f) > 5 && f[5] == "leave" {
		req.State = codec.HeartbeatLeave
	}
	r.beat(r.uint(f[1]), req)
}

func (r *rig) passCommand(f []string) {
	r.t.Helper()
	d, err := time.ParseDuration(f[1])
	if err != nil {
		r.fail("%v", err)
	}
	r.now += d
	r.step(Tick{Seen: func(id codec.MemberID) time.Duration {
		for _, name := range f[2:] {
			if codec.MemberID(r.dotted(name)) == id {
				return r.now
			}
		}
		return 0
	}})
}

func (r *rig) ackCommand(f []string) {
	r.t.Helper()
	n, ok := r.told[codec.NoticeID(r.dotted(f[0]))]
	if !ok {
		n.NoticeID = codec.NoticeID(r.dotted(f[0]))
	}
	ack, conn := ackOf(n, codec.ControlOK), r.connOf(n)
	for _, word := range f[1:] {
		field, value, _ := strings.Cut(word, "=")
		plus := uint64(0)
		set := func(now uint64) uint64 {
			if v, add := strings.CutPrefix(value, "+"); add {
				plus = r.uint(v)
				return now + plus
			}
			return r.uint(value)
		}
		switch field {
		case "ok":
		case "stale":
			ack.Result = codec.ControlStale
		case "error":
			ack.Result = codec.ControlError
		case "conn":
			conn = r.uint(value)
		case "kind":
			ack.NoticeKind = uint8(set(uint64(ack.NoticeKind)))
		case "group":
			ack.GroupID = codec.GroupID(set(uint64(ack.GroupID)))
		case "membership":
			ack.MembershipEpoch = uint32(set(uint64(ack.MembershipEpoch)))
		case "assignment":
			ack.AssignmentEpoch = uint32(set(uint64(ack.AssignmentEpoch)))
		case "epoch":
			ack.OwnershipEpoch = codec.OwnershipEpoch(set(uint64(ack.OwnershipEpoch)))
		default:
			r.fail("unknown field %q", word)
		}
	}
	r.ack(conn, ack)
}

// confirmAll answers OK to what a member has not answered yet.
func (r *rig) confirmAll(id codec.MemberID) {
	r.t.Helper()
	for i := 0; i < len(r.notices); i++ {
		n := r.notices[i]
		if m := r.core.members[id]; m != nil && n.MemberID == id && m.told[n.Partition].NoticeID == n.NoticeID && m.told[n.Partition].state == open {
			r.answer(n, codec.ControlOK)
		}
	}
}

func (r *rig) uint(s string) uint64 {
	r.t.Helper()
	base := 10
	if strings.HasPrefix(s, "0x") {
		s, base = s[2:], 16
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		r.fail("%v", err)
	}
	return n
}

// dotted reads TERM.COUNTER.
func (r *rig) dotted(s string) uint64 {
	r.t.Helper()
	term, counter, _ := strings.Cut(s, ".")
	return r.uint(term)<<32 | r.uint(counter)
}
