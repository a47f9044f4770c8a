/*
 * The commit protocol of DESIGN.md for one topic partition, as a model for Spin: every interleaving of
 * two processes, crashes, sessions that end under a living owner, and puts that land late.
 *
 * Offsets 0 .. N-1 lie in the log.  Output partition 0 takes the even ones, 1 the odd ones;
 * under the second configuration (CONFIGS 2) all go to output partition 2.  An object's key
 * is its output partition and where its range begins.  Sets of messages are bits.
 *
 * Who supersedes an intent waits until no request of the other configuration is under way, and
 * looks what is there before it puts.
 *
 *   LATE       a put may land long after its sender's lease has ended
 *   COMPACT    the log may lose any message at any time
 *   CONFIGS=2  a process may come back under another configuration
 *   BLIND      no recovery: what is missing here must be noticed
 *   UNAGREED   puts begin before the intent is recorded: must be noticed
 *   UNFENCED   the commit does not prove the lease and the entry: must be noticed
 *   BY_FIRST   a key has the first message's offset instead of the range's: must be noticed
 *   NO_WAIT    who supersedes does not wait: must be noticed
 *   NO_LOOK    who supersedes looks before it waits, but not after it: must be noticed
 *   SLOTS=2    no more puts are on their way at a time
 *   ONE        the first configuration has one output partition, for a smaller world
 */
#ifndef N
#define N 3
#endif
#ifndef CONFIGS
#define CONFIGS 1
#endif
#define OUTPUTS 3
#ifdef ONE
#define EVEN 255
#define ODD 0
#else
#define EVEN 85
#define ODD 170
#endif
#ifndef SLOTS
#define SLOTS 3
#endif
#if SLOTS == 2
#define third(condition, without) without
#else
#define third(condition, without) (condition)
#endif
#define NOBODY 0
#define bit(i) (1 << (i))
#define below(i) (bit(i) - 1)
#define range(s, e) (below(e) & ~below(s))

/* The ledger: the next offset, and the intent. */
byte committed = 0;
bool intent = false;
byte intent_end = 0;
byte intent_config = 0;
bool supersedes = false;

byte lease = NOBODY;
byte gone = 0;

/* The store: messages of each object, 0 for none, and the batch that its metadata name. */
byte object[OUTPUTS * N];
byte object_start[OUTPUTS * N];
byte object_end[OUTPUTS * N];

/* Puts on their way. */
typedef Put { byte owner; byte output; byte start; byte end; byte messages };
Put put[SLOTS];

#ifdef BY_FIRST
#define name_of(start, messages, answer) first_of(messages, answer)
#else
#define name_of(start, messages, answer) answer = start
#endif

inline first_of(some, answer) {
    answer = 0;
    do :: some & bit(answer) -> break :: else -> answer++ od
}

/* Each message below committed is in exactly one object, unless the log had lost it before. */
inline check() {
    byte m, k, found;
    m = 0;
    do
    :: m == committed -> break
    :: else ->
        found = 0;
        k = 0;
        do
        :: k == OUTPUTS * N -> break
        :: else -> found = found + ((object[k] >> m) & 1); k++
        od;
        assert(found == 1 || (found == 0 && (gone & bit(m))));
        m++
    od;
    m = 0; k = 0; found = 0
}

inline land(slot) {
    byte f, key;
    name_of(put[slot].start, put[slot].messages, f);
    key = put[slot].output * N + f;
    if
    :: object[key] == 0 ->
        object[key] = put[slot].messages;
        object_start[key] = put[slot].start;
        object_end[key] = put[slot].end
    :: else ->  /* put-if-absent; only ever our own batch stands there */
        assert(object_start[key] == put[slot].start && object_end[key] == put[slot].end)
    fi;
    put[slot].owner = NOBODY; put[slot].messages = 0;
    put[slot].output = 0; put[slot].start = 0; put[slot].end = 0;
    f = 0; key = 0;
    check()
}

/* Find what stands of [s, e): adopt it; of a superseded configuration, delete it. */
inline look() {
    byte k2;
    k2 = 0;
    do
    :: k2 == OUTPUTS * N -> break
    :: else ->
        if
        :: object[k2] != 0 && k2 % N >= s && k2 % N < e && (k2 / N == 2) == (config == 1) ->
            adopted = adopted | bit(k2 / N)
        :: object[k2] != 0 && object_start[k2] == s && object_end[k2] == e &&
                    (k2 / N == 2) != (config == 1) && supersedes ->
            object[k2] = 0; object_start[k2] = 0; object_end[k2] = 0
        :: else
        fi;
        k2++
    od;
    k2 = 0
}

inline wanted(o, answer) {
    answer = read & (o == 2 -> (config == 1 -> 255 : 0) :
                    (config == 1 -> 0 : (o == 0 -> EVEN : ODD)))
}

inline send(o) {
    byte i;
    i = 0;
    do
    :: put[i].owner == NOBODY ->
        put[i].owner = me; put[i].output = o; put[i].start = s; put[i].end = e;
        put[i].messages = mine;
        break
    :: else -> i++
    od;
    i = 0
}

#define a_slot_is_free (put[0].owner == NOBODY || put[1].owner == NOBODY || third(put[2].owner == NOBODY, false))
#define under_way(o) ((put[0].owner == me && put[0].output == o) || \
    (put[1].owner == me && put[1].output == o) || \
    third(put[2].owner == me && put[2].output == o, false))

/* A crash gives nothing back.  (A process that only stalls is one that Spin lets wait.) */
/* Unless LATE, who gives a lease back without an answer knows that the request is over. */
#ifdef LATE
#define may_leave(o) true
#else
#define may_leave(o) (!under_way(o))
#endif
#ifdef UNAGREED
#define may_put true
#else
#define may_put (lease == me)
#endif
#define of_other(slot) (put[slot].owner != NOBODY && (put[slot].output == 2) != (config == 1))
#ifdef NO_WAIT
#define waited_enough true
#else
#define waited_enough (!of_other(0) && !of_other(1) && third(!of_other(2), true))
#endif
#define may_die if :: skip :: goto died fi

proctype Process(byte me) {
    byte s, e, read, adopted, mine, first, output, config;
    bool resumed, took;
    do
    :: atomic {  /* position, and read up to wherever the policy or the intent says */
        committed < N || intent ->
        s = committed;
        if :: CONFIGS == 2 -> config = 0 :: CONFIGS == 2 -> config = 1 :: else fi;
        if
        :: intent -> e = intent_end
        :: else -> e = s + 1; do :: e < N -> e++ :: break od
        fi;
        read = range(s, e) & ~gone
       }
#ifdef UNAGREED
       goto puts;
#endif
       if :: atomic { lease == NOBODY -> lease = me; took = true } :: goto over fi;
       may_die;
       atomic {  /* reconcile */
        if
        :: committed != s || (intent && intent_end != e) || (!intent && s == N) -> goto over
        :: else -> resumed = intent
        fi
       }
       atomic {  /* record: a won write proves the lease */
        if
        :: lease == me && committed == s && intent == resumed && (!intent || intent_end == e) ->
            supersedes = intent && (supersedes || intent_config != config);
            intent = true; intent_end = e; intent_config = config
        :: else -> goto over
        fi
       }
       may_die;
#ifndef NO_LOOK
       if :: !supersedes || waited_enough :: goto over fi;
#endif
#ifndef BLIND
       if
       :: !resumed
       :: atomic { resumed && lease == me -> look() }
       :: resumed && lease != me -> goto over
       fi;
#endif
#ifdef NO_LOOK
       if :: !supersedes || waited_enough :: goto over fi;
#endif
puts:  do
       :: output == OUTPUTS -> break
       :: else ->
        atomic { wanted(output, mine); if :: mine -> name_of(s, mine, first) :: else fi };
        if
        :: mine == 0 || (adopted & bit(output))
        :: else ->
            if
            :: atomic { may_put && a_slot_is_free -> send(output) }
            :: !may_put -> goto over
            fi;
            if
            :: atomic { !under_way(output) && object[output * N + first] != 0 }  /* done */
            :: may_leave(output) -> goto over  /* no answer: begin again */
            :: goto died
            fi
        fi;
        atomic { output++; mine = 0; first = 0 }
       od;
#ifdef UNAGREED
       if :: atomic { lease == NOBODY -> lease = me; took = true } :: goto over fi;
       atomic { if :: committed == s -> intent = true; intent_end = e :: else -> goto over fi };
#endif
       atomic {  /* commit */
#ifdef UNFENCED
        committed = e; intent = false;
#else
        if
        :: lease == me && committed == s && intent && intent_end == e &&
           intent_config == config -> committed = e; intent = false
        :: else -> goto over
        fi;
#endif
        intent_end = 0; intent_config = 0; supersedes = false;
        check()
       }
       may_die;
over:  atomic { if :: took && lease == me -> lease = NOBODY :: else fi };
died:  atomic { s = 0; e = 0; read = 0; adopted = 0; mine = 0; first = 0; output = 0;
                config = 0; resumed = false; took = false }
    od
}

/* A session ends, also under a process that lives; never while its requests are in flight,
   unless they may be LATE: the trust of half a session and the limit on requests see to that. */
#ifdef LATE
#define may_end true
#else
#define may_end (put[0].owner != lease && put[1].owner != lease && \
    third(put[2].owner != lease, true))
#endif

active proctype World() {
    byte n;
    run Process(1);
    run Process(2);
    do
    :: atomic { lease != NOBODY && may_end -> lease = NOBODY }
    :: atomic { put[0].owner != NOBODY -> land(0) }
    :: atomic { put[1].owner != NOBODY -> land(1) }
#if SLOTS == 3
    :: atomic { put[2].owner != NOBODY -> land(2) }
#endif
    :: atomic { put[0].owner != NOBODY -> put[0].owner = NOBODY; put[0].messages = 0;
                put[0].output = 0; put[0].start = 0; put[0].end = 0 }  /* lost */
#ifdef COMPACT
    :: atomic { gone != below(N) -> n = 0; do :: n < N - 1 -> n++ :: break od;
                gone = gone | bit(n); n = 0 }
#endif
    od
}
