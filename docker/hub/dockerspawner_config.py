"""A JupyterHub on one machine, a container for each learner: the lab's part of its configuration.

    jupyterhub -f dockerspawner_config.py

Choose an authenticator beside it. The image is docker/hub/Dockerfile.
"""

c = get_config()  # noqa: F821  (given by JupyterHub)

c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
c.DockerSpawner.image = "delivery-lab-hub:0.1.0"
c.DockerSpawner.cmd = ["jupyterhub-singleuser"]
c.DockerSpawner.notebook_dir = "/home/learner/work"
c.DockerSpawner.volumes = {"delivery-lab-{username}": "/home/learner/work"}
c.DockerSpawner.mem_limit = "2G"
c.DockerSpawner.cpu_limit = 2
c.DockerSpawner.remove = True
c.DockerSpawner.default_url = "/lab/tree/Course.md"
c.DockerSpawner.start_timeout = 120
# Only the work folder and /tmp are written to; no capability is needed.
c.DockerSpawner.extra_host_config = {
    "read_only": True,
    "tmpfs": {"/tmp": ""},  # noqa: S108
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
}
