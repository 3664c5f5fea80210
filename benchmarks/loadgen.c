/* loadgen: asks a RocketMQ server as much as one thread can, and says how fast it answered and what that cost it.
 *
 *     cc -O2 -Wall -Wextra -o loadgen loadgen.c
 *     loadgen route --port 9876 --topics 1000 --connections 16 --in-flight 8 --pid 4711
 *     loadgen send --port 10911 --topic bench --queues 4 --body 100 --connections 8 --in-flight 64 --pid 4711
 *     loadgen pull --port 10911 --topic bench --queues 4 --depth 3200 --batch 32 --connections 4 --in-flight 2
 *     loadgen pop --port 10911 --topic bench --broker broker-a --batch 32 --connections 8 --in-flight 1
 *
 * Every connection keeps `in-flight` requests open, and each reply makes room for the next request. At the end the last
 * replies are awaited, so that a lost one shows. One JSON line comes out. The exit code is 0, or 1 if any request
 * failed, or 2 if the run could not be made. It speaks to the loopback address only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_FAILED = 1, CANNOT_RUN = 2 }; /* exit codes */

enum {
    PULL_MESSAGE = 11,
    GET_ROUTEINFO_BY_TOPIC = 105,
    SEND_MESSAGE_V2 = 310,
    POP_MESSAGE = 200050,
    ACK_MESSAGE = 200051,
    BATCH_ACK_MESSAGE = 200151,
    POLLING_TIMEOUT = 210, /* a pop found nothing */
    VERSION_5_5_0 = 513, /* a current client, which is answered in strict JSON */
    RESPONSE_FLAG = 1,
    PREFIX_BYTES = 8,
    BINARY_HEADER_BYTES = 21, /* of a binary header with neither remark nor fields */
    BINARY_OPAQUE_BYTES = 4
};

enum {
    CONNECTIONS_MAX = 10000,
    IN_FLIGHT_MAX = 1024,
    TOPICS_MAX = 100000,
    QUEUES_MAX = 1024,
    BODY_BYTES_MAX = 4 << 20,
    BATCH_MAX = 1024,
    POP_MAX = 32, /* messages of one pop */
    SECONDS_MAX = 600,
    STALL_SECONDS = 10,
    DRAIN_SECONDS = 5,
    HEADER_BYTES_MAX = 4096,
    REPLY_BYTES_MAX = 8 << 20, /* pages of a read buffer that no reply reaches are never touched */
    LATENCY_US_MAX = 1000000   /* longer ones count as this */
};

static struct {
    const char *mode, *header, *prefix, *topic, *pids, *broker, *group;
    int port, connections, in_flight, topics, queues, batch;
    double warm_s, measure_s;
    unsigned long body_bytes, depth; /* of each queue: how many messages there are to pull */
    unsigned long count;             /* of measured requests; 0: only the time ends the run */
} options = {
    .header = "json", .prefix = "bench", .topic = "bench", .pids = "",
    .broker = "broker-a", .group = "bench-pop", .connections = 16, .in_flight = 8, .topics = 1000,
    .queues = 4, .batch = 32, .warm_s = 2, .measure_s = 5, .body_bytes = 100};

__attribute__((format(printf, 2, 3), noreturn)) static void die(int exit_code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(exit_code);
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) die(CANNOT_RUN, "out of memory for %zu × %zu bytes", count, size);
    return memory;
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* ---- Numbers on the wire ---------------------------------------------------------------------------------------- */

static void put16(uint8_t *at, uint16_t value) { value = htons(value), memcpy(at, &value, 2); }
static void put32(uint8_t *at, uint32_t value) { value = htonl(value), memcpy(at, &value, 4); }
static uint16_t get16(const uint8_t *at) { uint16_t v; return memcpy(&v, at, 2), ntohs(v); }
static uint32_t get32(const uint8_t *at) { uint32_t v; return memcpy(&v, at, 4), ntohl(v); }
static uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

/* Decimal digits; how many they are. */
static size_t put_digits(uint8_t *at, uint32_t value) {
    uint8_t digits[10], *first = digits + sizeof digits;
    do *--first = (uint8_t)('0' + value % 10);
    while (value /= 10);
    size_t count = (size_t)(digits + sizeof digits - first);
    memcpy(at, first, count);
    return count;
}

/* As many digits as there is room for, with zeros before. */
static void put_padded(uint8_t *at, int digits, unsigned base, uint64_t value) {
    while (digits--) at[digits] = (uint8_t)"0123456789ABCDEF"[value % base], value /= base;
}

/* ---- Requests --------------------------------------------------------------------------------------------------- */

typedef struct { const char *name, *value; } field;

/* A frame that was encoded once, without its opaque, which belongs at `opaque_at` and changes with every sending. */
typedef struct {
    uint8_t *bytes;
    size_t size, opaque_at, body_bytes;
} request;

static bool is_binary(void) { return !strcmp(options.header, "binary"); }

/* Values are written as they are: none may need an escape. */
static size_t write_json_header(char *out, int code, const field *fields, size_t *opaque_at) {
    size_t n = (size_t)sprintf(out, "{\"code\":%d,\"extFields\":{", code);
    for (const field *f = fields; f->name; f++)
        n += (size_t)sprintf(out + n, "%s\"%s\":\"%s\"", f == fields ? "" : ",", f->name, f->value);
    n += (size_t)sprintf(out + n, "},\"flag\":0,\"language\":\"JAVA\",\"opaque\":");
    *opaque_at = n;
    return n + (size_t)sprintf(out + n, ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":%d}", VERSION_5_5_0);
}

static size_t write_binary_header(uint8_t *out, int code, const field *fields, size_t *opaque_at) {
    size_t n = BINARY_HEADER_BYTES - BINARY_OPAQUE_BYTES;
    memset(out, 0, n); /* language JAVA, no flag, no remark */
    put16(out, (uint16_t)code);
    put16(out + 3, VERSION_5_5_0);
    *opaque_at = 5;
    uint8_t *fields_bytes = out + n - 4;
    for (const field *f = fields; f->name; f++) {
        size_t name = strlen(f->name), value = strlen(f->value);
        put16(out + n, (uint16_t)name);
        memcpy(out + n + 2, f->name, name);
        put32(out + n + 2 + name, (uint32_t)value);
        memcpy(out + n + 6 + name, f->value, value);
        n += 6 + name + value;
    }
    put32(fields_bytes, (uint32_t)(out + n - fields_bytes - 4));
    return n;
}

static request make_request(int code, const field *fields, size_t body_bytes) {
    uint8_t *frame = allocate(1, PREFIX_BYTES + HEADER_BYTES_MAX + body_bytes), *header = frame + PREFIX_BYTES;
    size_t opaque_at, header_bytes = is_binary() ? write_binary_header(header, code, fields, &opaque_at)
                                                 : write_json_header((char *)header, code, fields, &opaque_at);
    for (size_t i = 0; i < body_bytes; i++) header[header_bytes + i] = (uint8_t)('a' + i % 26);
    return (request){frame, PREFIX_BYTES + header_bytes + body_bytes, PREFIX_BYTES + opaque_at, body_bytes};
}

/* The whole frame; its size. */
static size_t write_request(uint8_t *out, const request *r, uint32_t opaque) {
    memcpy(out, r->bytes, r->opaque_at);
    uint8_t *rest = out + r->opaque_at;
    if (is_binary()) put32(rest, opaque), rest += BINARY_OPAQUE_BYTES;
    else rest += put_digits(rest, opaque);
    memcpy(rest, r->bytes + r->opaque_at, r->size - r->opaque_at);
    size_t size = r->size + (size_t)(rest - out) - r->opaque_at;
    put32(out, (uint32_t)(size - 4));
    put32(out + 4, (uint32_t)(size - PREFIX_BYTES - r->body_bytes) | (uint32_t)is_binary() << 24);
    return size;
}

/* ---- Replies ---------------------------------------------------------------------------------------------------- */

typedef struct {
    long code, opaque, flag;
    const char *remark;
    const uint8_t *header, *body;
    size_t remark_bytes, header_bytes, body_bytes;
} reply;

/* Where the value of a key begins. A key's closing quote and colon cannot occur inside a JSON text: there the quote
 * would be escaped. So a plain search finds keys only. */
static const char *json_value(const char *json, size_t size, const char *quoted_key) {
    size_t length = strlen(quoted_key);
    const char *at = memmem(json, size, quoted_key, length);
    return at ? at + length : NULL;
}

static long json_integer(const char *json, size_t size, const char *quoted_key) {
    const char *at = json_value(json, size, quoted_key), *end = json + size;
    if (!at) die(REQUEST_FAILED, "a reply's header lacks %s %.*s", quoted_key, (int)size, json);
    bool is_negative = at < end && *at == '-';
    long value = 0;
    for (at += is_negative; at < end && *at >= '0' && *at <= '9' && value < INT32_MAX; at++)
        value = value * 10 + *at - '0';
    return is_negative ? -value : value;
}

static void read_json_header(reply *r, const char *json, size_t size) {
    r->code = json_integer(json, size, "\"code\":");
    r->opaque = json_integer(json, size, "\"opaque\":");
    r->flag = json_integer(json, size, "\"flag\":");
    const char *remark = r->code ? json_value(json, size, "\"remark\":\"") : NULL;
    if (!remark) return;
    const char *end = memchr(remark, '"', (size_t)(json + size - remark));
    r->remark = remark, r->remark_bytes = (size_t)((end ? end : json + size) - remark);
}

static void read_binary_header(reply *r, const uint8_t *header, size_t size) {
    if (size < BINARY_HEADER_BYTES) die(REQUEST_FAILED, "a reply has a binary header of only %zu bytes", size);
    r->code = get16(header);
    r->opaque = (int32_t)get32(header + 5);
    r->flag = get32(header + 9);
    r->remark_bytes = get32(header + 13);
    if (r->remark_bytes > size - BINARY_HEADER_BYTES) die(REQUEST_FAILED, "a remark is longer than its reply's header");
    r->remark = (const char *)header + 17;
}

/* The reply in one whole frame of `size` bytes. */
static reply read_reply(const uint8_t *frame, size_t size) {
    size_t header_bytes = get32(frame + 4) & 0xFFFFFF;
    if (frame[4] > 1 || PREFIX_BYTES + header_bytes > size)
        die(REQUEST_FAILED, "a reply of %zu bytes has a header of type %d and %zu bytes", size, frame[4], header_bytes);
    reply r = {.header = frame + PREFIX_BYTES, .header_bytes = header_bytes};
    r.body = r.header + header_bytes, r.body_bytes = size - PREFIX_BYTES - header_bytes;
    if (frame[4]) read_binary_header(&r, r.header, header_bytes);
    else read_json_header(&r, (const char *)r.header, header_bytes);
    if (!(r.flag & RESPONSE_FLAG)) die(REQUEST_FAILED, "the server sent a request (code %ld)", r.code);
    return r;
}

/* ---- Failures: counted by code, each with the first remark ------------------------------------------------------ */

enum { FAILURE_KINDS_MAX = 16 }; /* further kinds are counted with the last */

static struct {
    long code;
    unsigned long count;
    char remark[200];
} failures[FAILURE_KINDS_MAX];

static void count_failure(long code, const char *remark, size_t remark_bytes) {
    int kind = 0;
    while (kind < FAILURE_KINDS_MAX - 1 && failures[kind].count && failures[kind].code != code) kind++;
    if (failures[kind].count++) return;
    failures[kind].code = code;
    for (size_t i = 0; i < remark_bytes && i < sizeof failures[kind].remark - 1; i++) {
        uint8_t c = (uint8_t)remark[i];
        if (c == '"' || c == '\\' || c < ' ') break; /* its first line says enough, and prints as it is */
        failures[kind].remark[i] = c <= '~' ? (char)c : '?';
    }
}

/* ---- Modes: what is asked, and what a good answer is ------------------------------------------------------------ */

/* What a pop brought and is to be acknowledged. */
typedef struct {
    unsigned long group, pop_ms, invisible_ms;
    int revive_queue, count;
    int acknowledged; /* by each of the requests that are open; 0: they are a pop */
    struct { uint32_t queue; uint64_t start, offset; } messages[POP_MAX];
} popped;

/* One of the places for open requests: mostly one, or all acknowledgements of a pop. Place p uses the opaques p,
 * p + in_flight, p + 2 in_flight …: small numbers that grow, as clients do, and each names its place, in whatever order
 * the replies come. */
typedef struct {
    uint32_t opaque;   /* of the first of them */
    uint32_t count;    /* how many were asked together */
    uint64_t open;     /* bit i: the one behind i others is not answered */
    uint64_t asked_ns; /* when */
    uint32_t queue;    /* that a pull asked, and from where on */
    uint64_t offset;
    popped popped;
} place;

typedef struct {
    const char *name;
    void (*prepare)(void);                              /* everything that can be done before the clock runs */
    size_t (*write)(uint8_t *out, place *);             /* the frames to ask with now, p->count of them; their size */
    /* How many messages a success is about, or 0 and perhaps what is wrong with it. */
    int (*messages)(const reply *, place *, const char **flaw);
    int frames_max;   /* that are written together */
    long nothing_code; /* of a success beside 0 */
} mode;

enum { TOPIC_BYTES_MAX = 127 };
#define TOPIC_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%|"

static uint64_t wall_ms; /* what clocks show, a moment ago */

/* Routes */

static request *route_requests;

static void prepare_routes(void) {
    route_requests = allocate((size_t)options.topics, sizeof *route_requests);
    for (int i = 0; i < options.topics; i++) {
        char topic[TOPIC_BYTES_MAX + 16];
        snprintf(topic, sizeof topic, "%s-%d", options.prefix, i);
        route_requests[i] = make_request(GET_ROUTEINFO_BY_TOPIC, (field[]){{"topic", topic}, {NULL, NULL}}, 0);
    }
}

/* Marsaglia's xorshift, always from the same seed: every server is asked the same things in the same order. */
static uint64_t next_random(void) {
    static uint64_t state = 0x9E3779B97F4A7C15;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static size_t write_route(uint8_t *out, place *p) {
    return write_request(out, &route_requests[next_random() % (uint64_t)options.topics], p->opaque);
}

static int messages_of_route(const reply *r, place *p, const char **flaw) {
    (void)p;
    *flaw = r->body_bytes ? NULL : "a success with an empty body";
    return !*flaw;
}

/* Sends. One request per queue waits encoded; the parts that no two messages share have a fixed width and are written
 * over before each sending: the time of birth, the key, and of the unique id the last 12 digits, which are its time and
 * counter. */

#define UNIQUE_ID "7F000001%04X5E9F1D10" "############"
enum { UNIQUE_TIME_DIGITS = 8, UNIQUE_COUNTER_DIGITS = 4, BORN_DIGITS = 13, KEY_DIGITS = 12 };

typedef struct {
    request request;
    size_t born_at, key_at, unique_at;
} send_request;

static send_request *send_requests;
static uint64_t send_number;

static size_t find(const request *r, const char *mark) {
    const uint8_t *at = memmem(r->bytes, r->size, mark, strlen(mark));
    return (size_t)(at - r->bytes);
}

static send_request make_send(const char *queue) {
    const char *n = is_binary() ? "\x01" : "\\u0001", *v = is_binary() ? "\x02" : "\\u0002"; /* ends of a name and of a value */
    char unique_id[64], properties[256];
    snprintf(unique_id, sizeof unique_id, UNIQUE_ID, (unsigned)getpid() & 0xFFFF);
    snprintf(properties, sizeof properties, "KEYS%sorder-@@@@@@@@@@@@%sUNIQ_KEY%s%s%sWAIT%strue%sTAGS%sTagA%s", n, v, n,
             unique_id, v, n, v, n, v);
    const field fields[] = {{"a", "bench-producer"}, {"b", options.topic}, {"c", "TBW102"},   {"d", "4"},
                            {"e", queue},            {"f", "0"},           {"g", "$$$$$$$$$$$$$"}, {"h", "0"},
                            {"i", properties},       {"j", "0"},           {"k", "false"},    {"m", "false"},
                            {"n", "bench"},          {NULL, NULL}};
    request r = make_request(SEND_MESSAGE_V2, fields, options.body_bytes);
    return (send_request){r, find(&r, "$$$$$$$$$$$$$"), find(&r, "@@@@@@@@@@@@"), find(&r, "############")};
}

static void prepare_sends(void) {
    send_number = clock_ns(CLOCK_REALTIME) / 1000; /* beyond those of earlier runs, which sent less than one each µs */
    send_requests = allocate((size_t)options.queues, sizeof *send_requests);
    for (int i = 0; i < options.queues; i++) {
        char queue[16];
        snprintf(queue, sizeof queue, "%d", i);
        send_requests[i] = make_send(queue);
    }
}

static size_t write_send(uint8_t *out, place *p) {
    uint64_t number = send_number++;
    send_request *s = &send_requests[number % (uint64_t)options.queues];
    uint8_t *bytes = s->request.bytes;
    put_padded(bytes + s->born_at, BORN_DIGITS, 10, wall_ms);
    put_padded(bytes + s->key_at, KEY_DIGITS, 10, number);
    put_padded(bytes + s->unique_at, UNIQUE_TIME_DIGITS, 16, wall_ms);
    put_padded(bytes + s->unique_at + UNIQUE_TIME_DIGITS, UNIQUE_COUNTER_DIGITS, 16, number);
    return write_request(out, &s->request, p->opaque);
}

static int messages_of_send(const reply *r, place *p, const char **flaw) {
    (void)p;
    *flaw = memmem(r->header, r->header_bytes, "queueOffset", 11) ? NULL : "a success without the message's place";
    return !*flaw;
}

/* Pulls: each queue from its first message to the last whole batch, and again. */

enum { RECORD_BYTES_MIN = 91, RECORD_MAGIC = (int)0xDAA320A7 };

static uint64_t *pull_offsets;

static void prepare_pulls(void) {
    if (options.depth < (unsigned long)options.batch)
        die(CANNOT_RUN, "--depth says how many messages each queue has, at least a batch of %d", options.batch);
    pull_offsets = allocate((size_t)options.queues, sizeof *pull_offsets);
}

static size_t write_pull(uint8_t *out, place *p) {
    static uint64_t number;
    p->queue = (uint32_t)(number++ % (uint64_t)options.queues);
    p->offset = pull_offsets[p->queue];
    uint64_t next = p->offset + (uint64_t)options.batch;
    pull_offsets[p->queue] = next + (uint64_t)options.batch <= options.depth ? next : 0;
    char queue[16], offset[24], batch[16];
    snprintf(queue, sizeof queue, "%u", p->queue);
    snprintf(offset, sizeof offset, "%llu", (unsigned long long)p->offset);
    snprintf(batch, sizeof batch, "%d", options.batch);
    const field fields[] = {{"queueId", queue},       {"maxMsgBytes", "262144"},  {"maxMsgNums", batch},
                            {"sysFlag", "4"},         {"subscription", "*"},      {"suspendTimeoutMillis", "15000"},
                            {"commitOffset", "0"},    {"bname", "bench"},         {"topic", options.topic},
                            {"queueOffset", offset},  {"expressionType", "TAG"},  {"subVersion", "0"},
                            {"consumerGroup", "bench-consumer"}, {NULL, NULL}};
    request r = make_request(PULL_MESSAGE, fields, 0);
    size_t size = write_request(out, &r, p->opaque);
    free(r.bytes);
    return size;
}

/* The asked messages, each at its place in the queue. A broker may give fewer, where one of its files ends. */
static int messages_of_pull(const reply *r, place *p, const char **flaw) {
    size_t used = 0;
    int count = 0;
    for (; used < r->body_bytes && !*flaw; count++) {
        const uint8_t *record = r->body + used;
        size_t left = r->body_bytes - used, size = left < RECORD_BYTES_MIN ? 0 : get32(record);
        if (size < RECORD_BYTES_MIN || size > left) *flaw = "a message that does not fit its reply";
        else if ((int)get32(record + 4) != RECORD_MAGIC) *flaw = "a message with a wrong magic number";
        else if (get32(record + 12) != p->queue || get64(record + 20) != p->offset + (uint64_t)count)
            *flaw = "a message that was not asked for";
        used += size;
    }
    if (!*flaw && (!count || count > options.batch)) *flaw = "no message, or more than were asked for";
    return *flaw ? 0 : count;
}

/* Pops: what a pop brings is acknowledged, and then the next one is asked. Once a group has had all messages of the
 * topic, the next group begins with the first. */

enum { INVISIBLE_MS = 1800000, /* nothing comes again while it is measured */ BIT_SET_BYTES_MAX = 512,
       EMPTY_POPS_MAX = 16 /* in a row: one finds nothing, too, if others are at all queues */ };

static unsigned long group_number, empty_pops;

static void prepare_pops(void) {
    if (options.batch > POP_MAX) die(CANNOT_RUN, "--batch is at most %d for pops", POP_MAX);
    group_number = clock_ns(CLOCK_REALTIME) / 1000000; /* beyond those of earlier runs */
}

static size_t write_once(uint8_t *out, int code, const field *fields, const char *body, uint32_t opaque) {
    size_t body_bytes = strlen(body);
    request r = make_request(code, fields, body_bytes);
    memcpy(r.bytes + r.size - body_bytes, body, body_bytes);
    size_t size = write_request(out, &r, opaque);
    free(r.bytes);
    return size;
}

static size_t write_pop(uint8_t *out, place *p) {
    char group[TOPIC_BYTES_MAX + 32], batch[16], born[24], invisible[24];
    p->popped.acknowledged = 0, p->popped.group = group_number;
    snprintf(group, sizeof group, "%s-%lu", options.group, group_number);
    snprintf(batch, sizeof batch, "%d", options.batch);
    snprintf(born, sizeof born, "%llu", (unsigned long long)wall_ms);
    snprintf(invisible, sizeof invisible, "%d", INVISIBLE_MS);
    const field fields[] = {{"initMode", "0"},      {"bornTime", born},   {"maxMsgNums", batch}, {"pollTime", "0"},
                            {"expType", "TAG"},     {"exp", "*"},         {"order", "false"},    {"queueId", "-1"},
                            {"bname", options.broker}, {"topic", options.topic}, {"invisibleTime", invisible},
                            {"consumerGroup", group}, {NULL, NULL}};
    return write_once(out, POP_MESSAGE, fields, "", p->opaque);
}

static unsigned long number_at(const reply *r, const char *quoted_key, const char **flaw) {
    const char *at = json_value((const char *)r->header, r->header_bytes, quoted_key);
    if (!at) *flaw = "an answer to a pop without popTime, invisibleTime or reviveQid";
    return at ? strtoul(at, NULL, 10) : 0;
}

/* Take the messages of one queue, "kind queue offset,offset…", as they are told and as they came; where the text ends. */
static const char *take_queue(const reply *r, popped *got, const char *at, size_t *used, const char **flaw) {
    char *next;
    if (*at != '0') *flaw = "a message that came again";
    uint32_t queue = (uint32_t)strtoul(at + 2, &next, 10);
    uint64_t start = 0;
    for (bool is_first = true; !*flaw && (is_first || *next == ','); is_first = false) {
        uint64_t offset = strtoull(next + 1, &next, 10);
        if (is_first) start = offset; /* without gaps in the queue the first message begins the checkpoint */
        const uint8_t *record = r->body + *used;
        size_t left = r->body_bytes - *used, size = left < RECORD_BYTES_MIN ? 0 : get32(record);
        if (got->count == POP_MAX || size < RECORD_BYTES_MIN || size > left) *flaw = "messages that are not as told";
        else if (get32(record + 12) != queue || get64(record + 20) != offset) *flaw = "a message other than told";
        if (*flaw) break;
        got->messages[got->count].queue = queue, got->messages[got->count].start = start;
        got->messages[got->count++].offset = offset;
        *used += size;
    }
    return next;
}

static void take_popped(const reply *r, popped *got, const char **flaw) {
    got->pop_ms = number_at(r, "\"popTime\":\"", flaw);
    got->invisible_ms = number_at(r, "\"invisibleTime\":\"", flaw);
    got->revive_queue = (int)number_at(r, "\"reviveQid\":\"", flaw);
    const char *at = json_value((const char *)r->header, r->header_bytes, "\"msgOffsetInfo\":\"");
    size_t used = 0;
    if (!at) *flaw = "an answer to a pop without msgOffsetInfo";
    while (!*flaw && (at = take_queue(r, got, at, &used, flaw), *at == ';')) at++;
    if (!*flaw && (used != r->body_bytes || !got->count)) *flaw = "no message, or more than are told of";
}

/* A pop itself is worth no message: what is acknowledged counts. */
static int messages_of_pop(const reply *r, place *p, const char **flaw) {
    if (p->popped.acknowledged) return p->popped.acknowledged;
    if (!r->code) take_popped(r, &p->popped, flaw), empty_pops = 0;
    else if (p->popped.group == group_number && ++empty_pops > EMPTY_POPS_MAX) group_number++, empty_pops = 0;
    if (*flaw) p->popped.count = 0;
    return 0;
}

static size_t write_acks(uint8_t *out, place *p) {
    popped *got = &p->popped;
    size_t size = 0;
    char group[TOPIC_BYTES_MAX + 32], handle[400], queue[16], offset[24];
    snprintf(group, sizeof group, "%s-%lu", options.group, got->group);
    p->count = (uint32_t)got->count;
    for (int i = 0; i < got->count; i++) {
        unsigned long long start = got->messages[i].start, at = got->messages[i].offset;
        snprintf(queue, sizeof queue, "%u", got->messages[i].queue);
        snprintf(offset, sizeof offset, "%llu", at);
        snprintf(handle, sizeof handle, "%llu %lu %lu %d 0 %s %s %llu", start, got->pop_ms, got->invisible_ms,
                 got->revive_queue, options.broker, queue, at);
        const field fields[] = {{"extraInfo", handle}, {"offset", offset},        {"bname", options.broker},
                                {"queueId", queue},    {"topic", options.topic}, {"consumerGroup", group}, {NULL, NULL}};
        size += write_once(out + size, ACK_MESSAGE, fields, "", p->opaque + (uint32_t)(i * options.in_flight));
    }
    got->acknowledged = 1, got->count = 0;
    return size;
}

/* The bits of messages from `*index` on that are of its checkpoint, in base64; `*index` is then behind them. */
static void write_bits(char *text, const popped *got, int *index) {
    static const char *digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t bits[BIT_SET_BYTES_MAX + 3] = {0};
    size_t size = 0;
    uint32_t queue = got->messages[*index].queue;
    uint64_t start = got->messages[*index].start;
    for (; *index < got->count && got->messages[*index].queue == queue; ++*index) {
        uint64_t bit = got->messages[*index].offset - start;
        if (bit >= 8 * BIT_SET_BYTES_MAX) die(REQUEST_FAILED, "messages of one pop are too far apart");
        bits[bit / 8] |= (uint8_t)(1 << bit % 8), size = bit / 8 + 1;
    }
    for (size_t i = 0; i < size; i += 3) {
        uint32_t three = (uint32_t)bits[i] << 16 | (uint32_t)bits[i + 1] << 8 | bits[i + 2];
        for (int digit = 0; digit < 4; digit++)
            *text++ = i + (size_t)digit > size ? '=' : digits[three >> (18 - 6 * digit) & 63];
    }
    *text = 0;
}

static size_t write_batch_ack(uint8_t *out, place *p) {
    popped *got = &p->popped;
    char body[HEADER_BYTES_MAX], bits[BIT_SET_BYTES_MAX * 2];
    size_t n = (size_t)sprintf(body, "{\"acks\":[");
    for (int i = 0; i < got->count;) {
        const char *comma = i ? "," : "";
        uint32_t queue = got->messages[i].queue;
        unsigned long long start = got->messages[i].start;
        write_bits(bits, got, &i);
        if (n + strlen(bits) > sizeof body - 1024) die(REQUEST_FAILED, "messages of one pop are too far apart");
        n += (size_t)sprintf(body + n,
                             "%s{\"b\":\"%s\",\"c\":\"%s-%lu\",\"it\":%lu,\"pt\":%lu,\"q\":%u,\"r\":\"0\",\"rq\":%d,"
                             "\"so\":%llu,\"t\":\"%s\"}",
                             comma, bits, options.group, got->group, got->invisible_ms, got->pop_ms, queue,
                             got->revive_queue, start, options.topic);
    }
    sprintf(body + n, "],\"brokerName\":\"%s\"}", options.broker);
    got->acknowledged = got->count, got->count = 0;
    return write_once(out, BATCH_ACK_MESSAGE, (field[]){{"bname", options.broker}, {NULL, NULL}}, body, p->opaque);
}

static size_t write_pop_or_acks(uint8_t *out, place *p) { return p->popped.count ? write_acks(out, p) : write_pop(out, p); }

static size_t write_pop_or_batch(uint8_t *out, place *p) {
    return p->popped.count ? write_batch_ack(out, p) : write_pop(out, p);
}

static const mode modes[] = {
    {"route", prepare_routes, write_route, messages_of_route, 1, 0},
    {"send", prepare_sends, write_send, messages_of_send, 1, 0},
    {"pull", prepare_pulls, write_pull, messages_of_pull, 1, 0},
    {"pop", prepare_pops, write_pop_or_acks, messages_of_pop, POP_MAX, POLLING_TIMEOUT},
    {"pop-batch", prepare_pops, write_pop_or_batch, messages_of_pop, 2, POLLING_TIMEOUT},
};

static const mode *find_mode(const char *name) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, name)) return &modes[i];
    die(CANNOT_RUN, "there is no mode '%s'; known are: route, send, pull, pop, pop-batch", name);
}

/* ---- Connections ------------------------------------------------------------------------------------------------ */

typedef struct {
    int fd, idle_count;
    bool is_write_watched;
    uint8_t *in, *out;
    size_t in_bytes, out_bytes, out_sent;
    place *places;
    int *idle; /* the first idle_count are places without an open request */
} connection;

static const mode *active;
static int poller;
static bool is_asking = true;
static unsigned long asked, answered, succeeded, messages;
static uint64_t last_reply_ns;
static uint32_t latency_counts[LATENCY_US_MAX + 1];

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server) < 0)
        die(CANNOT_RUN, "cannot connect to port %d: %s", options.port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void open_connection(connection *c) {
    *c = (connection){.fd = dial(), .idle_count = options.in_flight};
    c->in = allocate(1, REPLY_BYTES_MAX);
    c->out = allocate((size_t)(options.in_flight * active->frames_max),
                      PREFIX_BYTES + HEADER_BYTES_MAX + options.body_bytes);
    c->places = allocate((size_t)options.in_flight, sizeof *c->places);
    c->idle = allocate((size_t)options.in_flight, sizeof *c->idle);
    for (int i = 0; i < options.in_flight; i++) c->idle[i] = i, c->places[i].opaque = (uint32_t)i, c->places[i].count = 1;
    struct epoll_event interest = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &interest) < 0) die(CANNOT_RUN, "epoll: %s", strerror(errno));
}

static void watch_write(connection *c, bool is_wanted) {
    if (c->is_write_watched == is_wanted) return;
    c->is_write_watched = is_wanted;
    struct epoll_event interest = {.events = EPOLLIN | (is_wanted ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &interest);
}

static void send_out(connection *c) {
    while (c->out_sent < c->out_bytes) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_bytes - c->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            watch_write(c, true);
            return;
        }
        if (n < 0) die(REQUEST_FAILED, "cannot send after %lu replies: %s", answered, strerror(errno));
        c->out_sent += (size_t)n;
    }
    c->out_bytes = c->out_sent = 0;
    watch_write(c, false);
}

/* Every idle place asks. What is unsent belongs to open requests, so behind it there is room for the others. */
static void ask(connection *c) {
    if (!is_asking || !c->idle_count) return;
    memmove(c->out, c->out + c->out_sent, c->out_bytes -= c->out_sent);
    c->out_sent = 0;
    uint64_t now = now_ns();
    wall_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    while (c->idle_count) {
        place *p = &c->places[c->idle[--c->idle_count]];
        p->opaque += p->count * (uint32_t)options.in_flight, p->count = 1, p->asked_ns = now;
        c->out_bytes += active->write(c->out + c->out_bytes, p);
        p->open = (1ull << p->count) - 1;
        asked += p->count;
    }
    send_out(c);
}

static void take_reply(connection *c, const reply *r, uint64_t now) {
    int index = (int)(r->opaque % options.in_flight);
    place *p = index < 0 ? NULL : &c->places[index];
    long behind = p ? (r->opaque - (long)p->opaque) / options.in_flight : -1;
    if (behind < 0 || behind >= (long)p->count || r->opaque < (long)p->opaque || !(p->open >> behind & 1))
        die(REQUEST_FAILED, "a reply answers %ld, which nobody asked or which was answered before", r->opaque);
    uint64_t us = (now - p->asked_ns) / 1000;
    latency_counts[us < LATENCY_US_MAX ? us : LATENCY_US_MAX]++;
    answered++;
    const char *flaw = NULL;
    bool is_success = !r->code || r->code == active->nothing_code;
    if (is_success) messages += (unsigned long)active->messages(r, p, &flaw);
    if (!(p->open &= ~(1ull << behind))) c->idle[c->idle_count++] = index;
    if (is_success && !flaw) succeeded++;
    else if (flaw) count_failure(r->code, flaw, strlen(flaw));
    else count_failure(r->code, r->remark, r->remark_bytes);
}

static void receive(connection *c) {
    ssize_t n = recv(c->fd, c->in + c->in_bytes, REPLY_BYTES_MAX - c->in_bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) die(REQUEST_FAILED, "the server closed a connection after %lu replies", answered);
    c->in_bytes += (size_t)n;
    last_reply_ns = now_ns();
    size_t used = 0;
    while (c->in_bytes - used >= PREFIX_BYTES) {
        size_t size = 4 + (size_t)get32(c->in + used);
        if (size < PREFIX_BYTES || size > REPLY_BYTES_MAX) die(REQUEST_FAILED, "a reply announces %zu bytes", size);
        if (c->in_bytes - used < size) break;
        reply r = read_reply(c->in + used, size);
        take_reply(c, &r, last_reply_ns);
        used += size;
    }
    memmove(c->in, c->in + used, c->in_bytes -= used);
}

/* ---- The run ---------------------------------------------------------------------------------------------------- */

static void turn(void) {
    struct epoll_event events[256];
    int count = epoll_wait(poller, events, 256, 100);
    for (int i = 0; i < count; i++) {
        connection *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) send_out(c);
        if (events[i].events & ~(uint32_t)EPOLLOUT) receive(c);
        ask(c);
    }
    if (now_ns() - last_reply_ns > STALL_SECONDS * 1000000000ull)
        die(REQUEST_FAILED, "no reply for %d s, %lu requests are open", STALL_SECONDS, asked - answered);
}

/* Until the time is over, or nothing is open any more, or `count` requests have succeeded in all. */
static void run(double seconds, unsigned long count) {
    uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9);
    while (now_ns() < end_ns && answered < asked && succeeded < count) turn();
}

/* CPU that the watched processes have used, all their threads together. */
static uint64_t server_cpu_ns(void) {
    uint64_t total = 0;
    char pids[256], *rest = pids, path[600];
    snprintf(pids, sizeof pids, "%s", options.pids);
    for (char *pid; *options.pids && (pid = strsep(&rest, ","));) {
        snprintf(path, sizeof path, "/proc/%s/task", pid);
        DIR *threads = opendir(path);
        if (!threads) die(CANNOT_RUN, "there is no process %s", pid);
        for (struct dirent *thread; (thread = readdir(threads));) {
            unsigned long long ns = 0;
            snprintf(path, sizeof path, "/proc/%s/task/%s/schedstat", pid, thread->d_name);
            FILE *file = thread->d_name[0] == '.' ? NULL : fopen(path, "r");
            if (!file) continue; /* a thread that ended just now */
            if (fscanf(file, "%llu", &ns) == 1) total += ns;
            fclose(file);
        }
        closedir(threads);
    }
    return total;
}

typedef struct {
    uint64_t wall_ns, server_ns, own_ns;
    unsigned long succeeded, messages;
} reading;

static reading take_reading(void) {
    return (reading){now_ns(), server_cpu_ns(), clock_ns(CLOCK_PROCESS_CPUTIME_ID), succeeded, messages};
}

static unsigned long latency_us(double share) {
    uint64_t total = 0, seen = 0;
    for (size_t us = 0; us <= LATENCY_US_MAX; us++) total += latency_counts[us];
    for (size_t us = 0; us <= LATENCY_US_MAX; us++)
        if ((seen += latency_counts[us]) && (double)seen >= share * (double)total) return us;
    return 0;
}

static void print_result(reading from, reading to) {
    double wall_s = (double)(to.wall_ns - from.wall_ns) * 1e-9, count = (double)(to.succeeded - from.succeeded);
    double worth = (double)(to.messages - from.messages);
    double server_s = (double)(to.server_ns - from.server_ns) * 1e-9, own_s = (double)(to.own_ns - from.own_ns) * 1e-9;
    printf("{\"mode\":\"%s\",\"header\":\"%s\",\"connections\":%d,\"in_flight\":%d,", options.mode, options.header,
           options.connections, options.in_flight);
    printf("\"seconds\":%.3f,\"requests\":%.0f,\"succeeded\":%lu,", wall_s, count, succeeded);
    printf("\"requests_per_s\":%.0f,\"server_cpu_us_per_request\":%.3f,\"server_cores\":%.3f,\"generator_cores\":%.3f,",
           count / wall_s, count > 0 ? server_s * 1e6 / count : 0, server_s / wall_s, own_s / wall_s);
    printf("\"messages_per_s\":%.0f,\"server_cpu_us_per_message\":%.3f,", worth / wall_s,
           worth > 0 ? server_s * 1e6 / worth : 0);
    printf("\"p50_us\":%lu,\"p99_us\":%lu,\"p999_us\":%lu,\"max_us\":%lu,", latency_us(.5), latency_us(.99),
           latency_us(.999), latency_us(1));
    printf("\"unanswered\":%lu,\"failures\":[", asked - answered);
    for (int i = 0; i < FAILURE_KINDS_MAX && failures[i].count; i++)
        printf("%s{\"code\":%ld,\"count\":%lu,\"remark\":\"%s\"}", i ? "," : "", failures[i].code, failures[i].count,
               failures[i].remark);
    printf("]}\n");
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */

static double number(const char *name, const char *text, double low, double high) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        die(CANNOT_RUN, "--%s is a number from %.0f to %.0f, not '%s'", name, low, high, text);
    return value;
}

static const char *topic_name(const char *name, const char *text) {
    if (!*text || strspn(text, TOPIC_CHARACTERS) != strlen(text) || strlen(text) > TOPIC_BYTES_MAX)
        die(CANNOT_RUN, "--%s is at most %d of the characters %s", name, TOPIC_BYTES_MAX, TOPIC_CHARACTERS);
    return text;
}

static const struct option names[] = {
    {"port", 1, NULL, 'p'},      {"header", 1, NULL, 'h'}, {"prefix", 1, NULL, 'x'},  {"pid", 1, NULL, 'P'},
    {"connections", 1, NULL, 'c'}, {"in-flight", 1, NULL, 'i'}, {"topics", 1, NULL, 't'}, {"warm", 1, NULL, 'w'},
    {"seconds", 1, NULL, 's'},   {"count", 1, NULL, 'n'},  {"topic", 1, NULL, 'T'},  {"queues", 1, NULL, 'q'},
    {"body", 1, NULL, 'b'},      {"batch", 1, NULL, 'B'},  {"depth", 1, NULL, 'd'},  {"broker", 1, NULL, 'r'},
    {"group", 1, NULL, 'g'},     {NULL, 0, NULL, 0}};

static void set_option(int letter, const char *name, const char *text) {
    switch (letter) {
        case 'p': options.port = (int)number(name, text, 1, 65535); break;
        case 'h': options.header = text; break;
        case 'x': options.prefix = topic_name(name, text); break;
        case 'T': options.topic = topic_name(name, text); break;
        case 'r': options.broker = topic_name(name, text); break;
        case 'g': options.group = topic_name(name, text); break;
        case 'P': options.pids = text; break;
        case 'c': options.connections = (int)number(name, text, 1, CONNECTIONS_MAX); break;
        case 'i': options.in_flight = (int)number(name, text, 1, IN_FLIGHT_MAX); break;
        case 't': options.topics = (int)number(name, text, 1, TOPICS_MAX); break;
        case 'q': options.queues = (int)number(name, text, 1, QUEUES_MAX); break;
        case 'b': options.body_bytes = (unsigned long)number(name, text, 1, BODY_BYTES_MAX); break;
        case 'B': options.batch = (int)number(name, text, 1, BATCH_MAX); break;
        case 'd': options.depth = (unsigned long)number(name, text, 1, 1e12); break;
        case 'w': options.warm_s = number(name, text, 0, SECONDS_MAX); break;
        case 's': options.measure_s = number(name, text, 0.01, SECONDS_MAX); break;
        case 'n': options.count = (unsigned long)number(name, text, 1, 1e12); break;
        default: exit(CANNOT_RUN); /* getopt has said why */
    }
}

static void read_options(int argc, char **argv) {
    int index = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", names, &index)) != -1;)
        set_option(letter, names[index].name, optarg);
    if (optind + 1 != argc || !options.port) die(CANNOT_RUN, "usage: loadgen MODE --port PORT [options]");
    options.mode = argv[optind];
    if (strcmp(options.header, "json") && !is_binary())
        die(CANNOT_RUN, "--header is json or binary, not '%s'", options.header);
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    active = find_mode(options.mode);
    active->prepare();
    poller = epoll_create1(EPOLL_CLOEXEC);
    static connection *connections;
    connections = allocate((size_t)options.connections, sizeof *connections);
    for (int i = 0; i < options.connections; i++) open_connection(&connections[i]);
    last_reply_ns = now_ns();
    for (int i = 0; i < options.connections; i++) ask(&connections[i]);

    run(options.warm_s, ULONG_MAX);
    memset(latency_counts, 0, sizeof latency_counts);
    reading from = take_reading();
    run(options.measure_s, options.count ? succeeded + options.count : ULONG_MAX);
    reading to = take_reading();
    is_asking = false;
    run(DRAIN_SECONDS, ULONG_MAX);
    print_result(from, to);
    return failures[0].count || asked != answered ? REQUEST_FAILED : 0;
}
