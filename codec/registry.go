package codec

// 0x0xxx: protocol and session.
const (
	CodeBadLength            Code = 0x0001
	CodeUnknownOp            Code = 0x0002
	CodeMalformedPayload     Code = 0x0003
	CodeUnsupportedVersion   Code = 0x0004
	CodeNotAuthenticated     Code = 0x0005
	CodeAuthFailed           Code = 0x0006
	CodeAuthTimeout          Code = 0x0007
	CodeUnknownTopic         Code = 0x0008
	CodeUnknownPartition     Code = 0x0009
	CodeInternal             Code = 0x000A
	CodeInvalidTopic         Code = 0x000B
	CodeSeqGap               Code = 0x0010
	CodeSeqExpired           Code = 0x0011
	CodeProducerEpochStale   Code = 0x0012
	CodeProducerSeqInvalid   Code = 0x0013
	CodeStaleGeneration      Code = 0x0020
	CodeNotOwner             Code = 0x0021
	CodeStaleOwner           Code = 0x0022
	CodeUnknownDelivery      Code = 0x0023
	CodeGroupMemberLimit     Code = 0x0024
	CodeGroupAssignmentLimit Code = 0x0025
	CodeUnknownMember        Code = 0x0026
	CodeMaxWaitingPulls      Code = 0x0027
	CodeDLQPathOverflow      Code = 0x0030
	CodeDLQUnavailable       Code = 0x0031
)

// 0x2xxx: metadata.
const (
	CodeTopicExistsMismatch Code = 0x2001
	CodeGroupExistsMismatch Code = 0x2002
	CodeMetadataReadOnly    Code = 0x2003
	CodeMetadataQuarantined Code = 0x2004
	CodeUnknownGroup        Code = 0x2005
	CodeMutationFenced      Code = 0x2006
	CodeMutationNotPackable Code = 0x2007
)

// 0x4xxx: backpressure and quota.
const (
	CodeBackpressure         Code = 0x4001
	CodeQuotaExceeded        Code = 0x4002
	CodeRateLimited          Code = 0x4003
	CodeStorageHighWatermark Code = 0x4004
	CodeMessageExceedsCredit Code = 0x4005
	CodeNoCredit             Code = 0x4006
	CodeSlowConsumer         Code = 0x4007
)

// 0x6xxx: replication.
const (
	CodeQuorumLost              Code = 0x6001
	CodeReadOnlyDegraded        Code = 0x6002
	CodeInSyncReplicasNotEnough Code = 0x6003
	CodeFollowerLag             Code = 0x6004
	CodeStaleLeaderEpoch        Code = 0x6005
	CodeLeaseExpired            Code = 0x6006
	CodeCatchupRequired         Code = 0x6007
	CodeLogGap                  Code = 0x6008
	CodeDivergentCommitted      Code = 0x6009
	CodeQuorumRecovered         Code = 0x600A
	CodeUncleanElectionRejected Code = 0x600B
	CodeElectionTimeout         Code = 0x600C
)

const (
	closes    = true
	stays     = false
	retriable = true
	final     = false
)

// registry is the table behind the methods of Code, ascending. It is never
// written. Rows are only ever added, and what a published row means never changes.
var registry = [...]CodeInfo{
	{CodeBadLength, "BAD_LENGTH", closes, final,
		"Send a length of 1 to 16777216 in front of every frame, counting the op byte and the payload, and check that this is the client port."},
	{CodeUnknownOp, "UNKNOWN_OP", closes, final,
		"Send only the client ops of wire version 1, which are 0x01 to 0x0F without MSG and NOTICE."},
	{CodeMalformedPayload, "MALFORMED_PAYLOAD", closes, final,
		"Compare the payload with the op's field table in the protocol (lengths, caps, enums, reserved fields, trailing bytes) and fix the client."},
	{CodeUnsupportedVersion, "UNSUPPORTED_VERSION", closes, final,
		"Connect with protocol_version 1, or use a client made for this broker's version."},
	{CodeNotAuthenticated, "NOT_AUTHENTICATED", closes, final,
		"Send CONNECT with a valid token before any other request than PING."},
	{CodeAuthFailed, "AUTH_FAILED", closes, final,
		"Check the token you connect with and ask the operator for a valid one."},
	{CodeAuthTimeout, "AUTH_TIMEOUT", closes, retriable,
		"Connect again and send CONNECT within 10 seconds."},
	{CodeUnknownTopic, "UNKNOWN_TOPIC", stays, final,
		"Create the topic with `mortarmq topics create NAME`, then DECLARE its name again to learn the new topic_id."},
	{CodeUnknownPartition, "UNKNOWN_PARTITION", stays, final,
		"Use a partition below the count that DECLARE returns for this topic."},
	{CodeInternal, "INTERNAL", stays, final,
		"Give the diagnostic id to the operator, who finds it with the cause in the broker's log."},
	{CodeInvalidTopic, "INVALID_TOPIC", stays, final,
		"Choose a topic name of dot-separated tokens without wildcards, white space, a leading `$` or the reserved .dlq suffix, and publish to source topics only."},
	{CodeSeqGap, "SEQ_GAP", stays, retriable,
		"Send again from the first PUB that failed, in order, so that each producer_seq follows the last stored one."},
	{CodeSeqExpired, "SEQ_EXPIRED", stays, final,
		"Find out by reading whether the message was stored, and go on with a new producer_seq or producer_id."},
	{CodeProducerEpochStale, "PRODUCER_EPOCH_STALE", stays, retriable,
		"Connect to the leader and send the same PUB there with the same producer_id and producer_seq."},
	{CodeProducerSeqInvalid, "PRODUCER_SEQ_INVALID", stays, final,
		"Set a producer_id other than 0, or leave both producer_id and producer_seq 0."},
	{CodeStaleGeneration, "STALE_GENERATION", stays, final,
		"Handle the NOTICEs that have arrived and use the newest epochs, or SUB again if the subscription is gone."},
	{CodeNotOwner, "NOT_OWNER", stays, final,
		"Handle the NOTICEs that have arrived, then PULL with the ownership epochs you hold now, or with none."},
	{CodeStaleOwner, "STALE_OWNER", stays, final,
		"Drop this message: the partition has a new owner, which gets it again."},
	{CodeUnknownDelivery, "UNKNOWN_DELIVERY", stays, final,
		"Drop this delivery: the message is already settled or was delivered again under a newer delivery_id."},
	{CodeGroupMemberLimit, "GROUP_MEMBER_LIMIT", stays, retriable,
		"Wait until one of the group's 10 members leaves, or join another group."},
	{CodeGroupAssignmentLimit, "GROUP_ASSIGNMENT_LIMIT", stays, final,
		"Leave one of the 64 subscriptions of this connection, or open another connection."},
	{CodeUnknownMember, "UNKNOWN_MEMBER", stays, final,
		"SUB again: this membership has ended."},
	{CodeMaxWaitingPulls, "MAX_WAITING_PULLS", stays, retriable,
		"PULL again after a pause, or with wait_ms 0."},
	{CodeDLQPathOverflow, "DLQ_PATH_OVERFLOW", stays, final,
		"Have the operator look at the quarantined message: it failed in the dead-letter topic too and is not delivered again."},
	{CodeDLQUnavailable, "DLQ_UNAVAILABLE", stays, final,
		"Go on: the message stays pending and the broker tries the move to the dead-letter topic again."},

	{CodeTopicExistsMismatch, "TOPIC_EXISTS_MISMATCH", stays, final,
		"DECLARE with the topic's own partition count or with 0, or choose another name."},
	{CodeGroupExistsMismatch, "GROUP_EXISTS_MISMATCH", stays, final,
		"SUB with the start_policy the group was created with, or choose another group name."},
	{CodeMetadataReadOnly, "METADATA_READ_ONLY", stays, retriable,
		"Send the request again after a pause: topics cannot be changed until the cluster has a quorum."},
	{CodeMetadataQuarantined, "METADATA_QUARANTINED", stays, final,
		"Have the operator repair the metadata log, which failed its checks at start."},
	{CodeUnknownGroup, "UNKNOWN_GROUP", stays, final,
		"SUB without the NO_CREATE flag to create the group, or check its name."},
	{CodeMutationFenced, "MUTATION_FENCED", stays, retriable,
		"Send the request again: the leader changed before it took effect."},
	{CodeMutationNotPackable, "MUTATION_NOT_PACKABLE", stays, final,
		"Use a shorter name or fewer partitions: the change does not fit into one record and nothing was written."},

	{CodeBackpressure, "BACKPRESSURE", stays, retriable,
		"Wait for answers before sending more, then send this request again."},
	{CodeQuotaExceeded, "QUOTA_EXCEEDED", stays, final,
		"Ask for fewer partitions, or have the operator raise the limit or delete topics that are not used."},
	{CodeRateLimited, "RATE_LIMITED", stays, retriable,
		"Publish more slowly on this connection and send this PUB again after a pause."},
	{CodeStorageHighWatermark, "STORAGE_HIGH_WATERMARK", stays, retriable,
		"Send again later: publishing resumes when the operator has freed disk space, while consuming and acknowledging go on."},
	{CodeMessageExceedsCredit, "MESSAGE_EXCEEDS_CREDIT", stays, final,
		"Raise credit_bytes with CREDIT above the size of the next message, then PULL again."},
	{CodeNoCredit, "NO_CREDIT", stays, retriable,
		"Settle deliveries with ACK or NACK or enlarge the window with CREDIT, then PULL again."},
	{CodeSlowConsumer, "SLOW_CONSUMER", closes, retriable,
		"Connect again and read faster, or PULL less at a time."},

	{CodeQuorumLost, "QUORUM_LOST", stays, retriable,
		"Send the same PUB again with the same producer_seq: whether it was stored is not known yet."},
	{CodeReadOnlyDegraded, "READ_ONLY_DEGRADED", stays, retriable,
		"Send the PUB again later: the leader has no working quorum and stored nothing."},
	{CodeInSyncReplicasNotEnough, "IN_SYNC_REPLICAS_NOT_ENOUGH", stays, retriable,
		"Send the PUB again later: no follower is in sync and nothing was stored."},
	{CodeFollowerLag, "FOLLOWER_LAG", stays, final,
		"Have the operator check the disk and the network of the follower that fell behind."},
	{CodeStaleLeaderEpoch, "STALE_LEADER_EPOCH", stays, retriable,
		"Connect to the leader, named as leader=HOST:PORT when it is known, and send the request there."},
	{CodeLeaseExpired, "LEASE_EXPIRED", stays, retriable,
		"Send the same PUB to the new leader with the same producer_seq: whether it was stored is not known yet."},
	{CodeCatchupRequired, "CATCHUP_REQUIRED", stays, retriable,
		"Use another node, or try again once this one has restored its log."},
	{CodeLogGap, "LOG_GAP", stays, final,
		"Have the operator check the follower, which was offered entries that do not join its log."},
	{CodeDivergentCommitted, "DIVERGENT_COMMITTED", stays, final,
		"Have the operator compare the nodes' logs before anything is restarted: two of them disagree on committed messages."},
	{CodeQuorumRecovered, "QUORUM_RECOVERED", stays, final,
		"Go on: the cluster accepts writes again."},
	{CodeUncleanElectionRejected, "UNCLEAN_ELECTION_REJECTED", stays, final,
		"Have the operator let the node catch up: its log is too short for it to lead."},
	{CodeElectionTimeout, "ELECTION_TIMEOUT", stays, retriable,
		"Try again later, and have the operator check that a majority of the nodes is up and connected."},
}
