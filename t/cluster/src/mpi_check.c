/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_check: what the launchers of the test clusters start: a small MPI program that shows that all
 * its ranks reach each other, and that fails or goes on for ever when it's told to. Uses MPI and
 * nothing of the project; t/cluster/mpi-image compiles it once for each MPI.
 */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RING_WORDS 4096
#define PAUSE_MS   50

struct wish {
	long die;        /* the rank that ends early, or -1 */
	long code;       /* … with this exit status */
	long signal;     /* … or by this signal, if not 0 */
	long after_ms;   /* … that long after the check */
	long run_ms;     /* how long all go on after the check; -1: for ever */
	long out_bytes;  /* what each rank writes to its standard output, in lines of 64 */
	int reads_input; /* rank 0 reads its standard input to the end and says how long it was */
};

static int rank, ranks;
static volatile sig_atomic_t is_enough;

static void on_enough(int number)
{
	(void)number;
	is_enough = 1;
}

static void usage(void)
{
	fputs("usage: mpi_check [--die RANK] [--code N] [--signal N] [--after-ms N] [--run-ms N]\n"
	      "                 [--output BYTES] [--input]\n",
	      stderr);
	exit(2);
}

static long number(const char *text)
{
	char *end;
	errno = 0;
	long value = text ? strtol(text, &end, 10) : 0;
	if (!text || end == text || *end || errno != 0)
		usage();
	return value;
}

static void read_options(int argc, char **argv, struct wish *wish)
{
	const struct {
		const char *name;
		long *value;
	} options[] = {
		{"--die", &wish->die},       {"--code", &wish->code},
		{"--signal", &wish->signal}, {"--after-ms", &wish->after_ms},
		{"--run-ms", &wish->run_ms}, {"--output", &wish->out_bytes},
	};
	for (int i = 1; i < argc; i++) {
		long *value = NULL;
		if (strcmp(argv[i], "--input") == 0) {
			wish->reads_input = 1;
			continue;
		}
		for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
			if (strcmp(argv[i], options[k].name) == 0)
				value = options[k].value;
		}
		if (!value)
			usage();
		*value = number(argv[++i]);
	}
}

static void pause_ms(long ms)
{
	struct timespec span = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&span, &span) < 0 && errno == EINTR)
		continue;
}

static void fail(const char *what)
{
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 9);
}

/* A message goes once around, and every rank adds its own number to each word of it. */
static void check_ring(void)
{
	static long words[RING_WORDS];
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	if (ranks == 1)
		return;
	if (rank == 0)
		MPI_Send(words, RING_WORDS, MPI_LONG, next, 1, MPI_COMM_WORLD);
	MPI_Recv(words, RING_WORDS, MPI_LONG, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (size_t i = 0; i < RING_WORDS; i++)
		words[i] += rank;
	if (rank != 0)
		MPI_Send(words, RING_WORDS, MPI_LONG, next, 1, MPI_COMM_WORLD);
	long want = (long)ranks * (ranks - 1) / 2;
	for (size_t i = 0; rank == 0 && i < RING_WORDS; i++) {
		if (words[i] != want)
			fail("the ring's message came back wrong");
	}
}

static void check_allreduce(void)
{
	double mine[3] = {rank, 1, rank * 0.5}, sum[3];
	double total = ranks * (ranks - 1) / 2.0;
	MPI_Allreduce(mine, sum, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (sum[0] != total || sum[1] != ranks || sum[2] != total / 2)
		fail("allreduce's sums are wrong");
}

static void say_who(void)
{
	char host[256] = "?";
	const char *partition = getenv("IPUOF_VIPU_API_PARTITION_ID");
	const char *gcd = getenv("IPUOF_VIPU_API_GCD_ID");
	gethostname(host, sizeof(host) - 1);
	printf("rank %d of %d on %s partition %s gcd %s\n", rank, ranks, host,
	       partition ? partition : "-", gcd ? gcd : "-");
	fflush(stdout);
}

/* Of a letter of the rank's own: mpirun cuts and mixes what several of them write. */
static void write_much(long bytes)
{
	for (long done = 1; done <= bytes; done++)
		putchar(done % 64 == 0 ? '\n' : 'A' + rank % 26);
	fflush(stdout);
}

static void read_input(void)
{
	char buffer[65536];
	long total = 0;
	ssize_t n;
	while ((n = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0)
		total += n;
	printf("input %ld\n", total);
	fflush(stdout);
}

static void end_early(const struct wish *wish)
{
	pause_ms(wish->after_ms);
	if (wish->signal != 0)
		raise((int)wish->signal);
	_exit((int)wish->code);
}

int main(int argc, char **argv)
{
	struct wish wish = {.die = -1, .code = 3};
	read_options(argc, argv, &wish);
	signal(SIGUSR1, on_enough);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	check_ring();
	check_allreduce();
	say_who();
	if (wish.reads_input && rank == 0)
		read_input();
	write_much(wish.out_bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		printf("checked %d ranks: ring and allreduce are right\n", ranks);
		fflush(stdout);
	}
	if (rank == wish.die)
		end_early(&wish);
	for (long ms = 0; !is_enough && (wish.run_ms < 0 || ms < wish.run_ms); ms += PAUSE_MS)
		pause_ms(PAUSE_MS);
	MPI_Finalize();
	return 0;
}
