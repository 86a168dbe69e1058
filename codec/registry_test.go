package codec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The registry as published: numbers, names and the closing rule are fixed.
const publishedCodes = `
0x0001 BAD_LENGTH closes
0x0002 UNKNOWN_OP closes
0x0003 MALFORMED_PAYLOAD closes
0x0004 UNSUPPORTED_VERSION closes
0x0005 NOT_AUTHENTICATED closes
0x0006 AUTH_FAILED closes
0x0007 AUTH_TIMEOUT closes
0x0008 UNKNOWN_TOPIC
0x0009 UNKNOWN_PARTITION
0x000A INTERNAL
0x000B INVALID_TOPIC
0x0010 SEQ_GAP
0x0011 SEQ_EXPIRED
0x0012 PRODUCER_EPOCH_STALE
0x0013 PRODUCER_SEQ_INVALID
0x0020 STALE_GENERATION
0x0021 NOT_OWNER
0x0022 STALE_OWNER
0x0023 UNKNOWN_DELIVERY
0x0024 GROUP_MEMBER_LIMIT
0x0025 GROUP_ASSIGNMENT_LIMIT
0x0026 UNKNOWN_MEMBER
0x0027 MAX_WAITING_PULLS
0x0030 DLQ_PATH_OVERFLOW
0x0031 DLQ_UNAVAILABLE
0x2001 TOPIC_EXISTS_MISMATCH
0x2002 GROUP_EXISTS_MISMATCH
0x2003 METADATA_READ_ONLY
0x2004 METADATA_QUARANTINED
0x2005 UNKNOWN_GROUP
0x2006 MUTATION_FENCED
0x2007 MUTATION_NOT_PACKABLE
0x4001 BACKPRESSURE
0x4002 QUOTA_EXCEEDED
0x4003 RATE_LIMITED
0x4004 STORAGE_HIGH_WATERMARK
0x4005 MESSAGE_EXCEEDS_CREDIT
0x4006 NO_CREDIT
0x4007 SLOW_CONSUMER closes
0x6001 QUORUM_LOST
0x6002 READ_ONLY_DEGRADED
0x6003 IN_SYNC_REPLICAS_NOT_ENOUGH
0x6004 FOLLOWER_LAG
0x6005 STALE_LEADER_EPOCH
0x6006 LEASE_EXPIRED
0x6007 CATCHUP_REQUIRED
0x6008 LOG_GAP
0x6009 DIVERGENT_COMMITTED
0x600A QUORUM_RECOVERED
0x600B UNCLEAN_ELECTION_REJECTED
0x600C ELECTION_TIMEOUT
`

func TestRegistryIsAsPublished(t *testing.T) {
	want := strings.Split(strings.TrimSpace(publishedCodes), "\n")
	var got []string
	perSegment := map[Code]int{}
	for _, row := range Codes() {
		line := fmt.Sprintf("0x%04X %s", uint16(row.Code), row.Name)
		if row.Closes {
			line += " closes"
		}
		got = append(got, line)
		perSegment[row.Code&0xF000]++
	}
	if !slices.Equal(got, want) {
		t.Errorf("the registry is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if perSegment[0x0000] != 25 || perSegment[0x2000] != 7 || perSegment[0x4000] != 7 || perSegment[0x6000] != 12 || len(got) != 51 {
		t.Errorf("%d codes, per segment %v; want 51 = 25+7+7+12", len(got), perSegment)
	}
}

// A hint is one sentence that says what to do and can be sent as it is.
func TestHints(t *testing.T) {
	seen := map[string]Code{}
	for _, row := range Codes() {
		h := row.Hint
		switch {
		case h == "":
			t.Errorf("%v has no hint", row.Code)
		case len(h) > 200:
			t.Errorf("%v: the hint has %d bytes, more than 200", row.Code, len(h))
		case !strings.HasSuffix(h, ".") || strings.Contains(h, ". ") || strings.ContainsAny(h, "\n!?;"):
			t.Errorf("%v: not one sentence: %q", row.Code, h)
		case seen[h] != 0:
			t.Errorf("%v has the hint of %v", row.Code, seen[h])
		}
		seen[h] = row.Code
	}
	if h := CodeUnknownTopic.Hint(); !strings.Contains(h, "mortarmq topics create NAME") {
		t.Errorf("the hint of UNKNOWN_TOPIC names no command: %q", h)
	}
	if h := CodeStaleLeaderEpoch.Hint(); !strings.Contains(h, "leader=HOST:PORT") {
		t.Errorf("the hint of STALE_LEADER_EPOCH does not name the leader's place: %q", h)
	}
}

// What closes because the client is wrong cannot be sent again; what a leader,
// a quorum or room would cure can.
func TestRetriable(t *testing.T) {
	want := []Code{CodeAuthTimeout, CodeSeqGap, CodeProducerEpochStale, CodeGroupMemberLimit, CodeMaxWaitingPulls,
		CodeMetadataReadOnly, CodeMutationFenced,
		CodeBackpressure, CodeRateLimited, CodeStorageHighWatermark, CodeNoCredit, CodeSlowConsumer,
		CodeQuorumLost, CodeReadOnlyDegraded, CodeInSyncReplicasNotEnough, CodeStaleLeaderEpoch, CodeLeaseExpired,
		CodeCatchupRequired, CodeElectionTimeout}
	var got []Code
	for _, row := range Codes() {
		if row.Code.Retriable() {
			got = append(got, row.Code)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("retriable are %v, want %v", got, want)
	}
}

func TestCodeText(t *testing.T) {
	if got := CodeUnknownTopic.Name(); got != "UNKNOWN_TOPIC" {
		t.Errorf("Name is %q", got)
	}
	if got := CodeUnknownTopic.String(); got != "UNKNOWN_TOPIC (0x0008)" {
		t.Errorf("String is %q", got)
	}
	for _, c := range []Code{0, 0x000C, 0x1234, 0x600D, 0xFFFF} {
		hex := fmt.Sprintf("0x%04X", uint16(c))
		if c.Name() != hex || c.String() != hex || c.Closes() || c.Retriable() || c.Hint() == "" {
			t.Errorf("unregistered %s: name %q, string %q, closes %v, retriable %v, hint %q",
				hex, c.Name(), c.String(), c.Closes(), c.Retriable(), c.Hint())
		}
	}
}

func TestCodesGivesACopy(t *testing.T) {
	Codes()[0].Name = "changed"
	if CodeBadLength.Name() != "BAD_LENGTH" {
		t.Error("writing to the result of Codes changes the registry")
	}
}

func TestErrorsMatchByCode(t *testing.T) {
	err := fmt.Errorf("while reading: %w", &Error{Code: CodeMalformedPayload, Message: "the group name is empty"})
	if !errors.Is(err, ErrMalformed) || errors.Is(err, ErrBadLength) || errors.Is(err, errors.New("other")) {
		t.Error("an Error must match exactly those with its code")
	}
	if got := err.Error(); got != "while reading: MALFORMED_PAYLOAD (0x0003): the group name is empty" {
		t.Errorf("text %q", got)
	}
	if got := ErrBadLength.Error(); got != "BAD_LENGTH (0x0001): "+CodeBadLength.Hint() {
		t.Errorf("text %q", got)
	}
	for want, err := range map[Code]error{CodeBadLength: ErrBadLength, CodeUnknownOp: ErrUnknownOp,
		CodeMalformedPayload: ErrMalformed, CodeUnsupportedVersion: ErrUnsupportedVersion} {
		if code(t, err) != want {
			t.Errorf("%v has code %v", err, code(t, err))
		}
	}
}
