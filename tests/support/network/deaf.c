/* Preloaded into a process, it is told nothing of changes of the network: the kernel lets it not join their groups. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int bind(int descriptor, const struct sockaddr *address, socklen_t length)
{
    if (length >= sizeof(struct sockaddr_nl) && address->sa_family == AF_NETLINK &&
        ((const struct sockaddr_nl *)address)->nl_groups) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_bind, descriptor, address, length);
}
